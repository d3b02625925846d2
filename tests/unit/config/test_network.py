"""The limits of the exchange: contradictory values are refused, with the option to change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flinknet.config import BufferDebloatConfig, NetworkConfig, WireLimits
from flinknet.config.network import check_buffer_timeout
from flinknet.errors import ConfigurationError


def refusal(section: type[Any], **options: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        section(**options)
    return str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"segment_bytes": 63}, "segment_bytes is 63: choose 64 bytes to 16 MiB"),
        (
            {"network_memory_bytes": 1024, "segment_bytes": 2048},
            "network_memory_bytes is 1024, less than one buffer of 2048 bytes",
        ),
        (
            {"debloat": BufferDebloatConfig(enabled=True, segment_bytes_min=4096)}
            | {"segment_bytes": 1024},
            "debloat.segment_bytes_min is 4096, more than segment_bytes (1024)",
        ),
        ({"overdraft_buffers_per_partition": -1}, "overdraft_buffers_per_partition is -1: "),
        ({"buffers_per_subpartition_max": 1}, "buffers_per_subpartition_max is 1: choose 2 or"),
        (
            {"buffers_per_channel": 0, "floating_buffers_per_gate": 0},
            "buffers_per_channel and floating_buffers_per_gate are both 0",
        ),
        (
            {"buffers_per_channel": 10, "wire": WireLimits(credit_per_channel_max=9)},
            "a channel could claim 10 + ",
        ),
        ({"checksums": "sometimes"}, "checksums is 'sometimes': choose "),
        ({"buffer_timeout_ms": -2}, "buffer_timeout_ms is -2: choose -1 (only full buffers)"),
        ({"busy_poll_us": 1_000_001}, "busy_poll_us is 1000001: choose 0"),
        ({"record_bytes_max": 2**31}, "record_bytes_max is 2147483648: choose segment_bytes to 2"),
        ({"record_elements_max": 1}, "record_elements_max is 1: choose segment_bytes (33024)"),
        ({"record_spill_bytes": 1024}, "record_spill_bytes is 1024: choose 100 KiB or more"),
        ({"reassembly_memory_bytes": 1024}, "reassembly_memory_bytes is 1024: it must hold one"),
        ({"rendezvous_timeout_ms": -1}, "rendezvous_timeout_ms is -1: choose 0 or more"),
        (
            {"connect_backoff_ms": 100, "connect_backoff_max_ms": 99},
            "connect_backoff_max_ms is 99: choose connect_backoff_ms (100) or more",
        ),
        (
            {"heartbeat_interval_ms": 1000, "heartbeat_timeout_ms": 1999},
            "heartbeat_timeout_ms is 1999: choose 0 (never give up) or at least twice",
        ),
        (
            {"heartbeat_interval_ms": 99},
            "wire.heartbeats_per_minute_max is 1200: with a heartbeat_interval_ms of 99 choose 12",
        ),
        ({"outbox_bytes_max": 1024}, "outbox_bytes_max is 1024: it must hold one buffer of 33024"),
        ({"turn_bytes_max": 1024}, "turn_bytes_max is 1024: choose 4096 or more"),
        ({"receive_buffer_bytes": 1024}, "receive_buffer_bytes is 1024: choose 4 KiB to 64 MiB"),
    ],
)
def test_a_limit_is_refused_with_what_to_choose(options: dict[str, Any], message: str) -> None:
    assert refusal(NetworkConfig, **options).startswith(message)


@pytest.mark.parametrize("timeout", [-1, 0, 0.5, 100, "adaptive"])
def test_a_buffer_timeout_may_be(timeout: Any) -> None:
    check_buffer_timeout(timeout)


@pytest.mark.parametrize("timeout", [-0.5, float("inf"), float("nan"), True, "soon", None])
def test_a_buffer_timeout_may_not_be(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="buffer_timeout_ms is .*: choose -1"):
        check_buffer_timeout(timeout)


def test_the_network_memory_holds_whole_buffers() -> None:
    config = NetworkConfig(network_memory_bytes=100_000, segment_bytes=32_768)
    assert config.segments == 3


@pytest.mark.parametrize(
    ("options", "extra"),
    [
        ({}, 22),
        ({"buffers_per_subpartition_max": 30}, 2),
        ({"buffers_per_subpartition_max": 64}, 0),
        ({"large_record_buffers_max": 0}, 0),
        ({"flow_control": "off"}, 0),
    ],
    ids=str,
)
def test_large_records_may_use_more_buffers(options: dict[str, Any], extra: int) -> None:
    assert NetworkConfig(**options).large_record_extra_buffers == extra


def test_a_handshake_that_holds_no_hello_is_refused() -> None:
    assert refusal(WireLimits, handshake_bytes_max=64).startswith("handshake_bytes_max is 64: ")


def test_the_documentation_has_the_defaults() -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "buffers.md"
    told = re.findall(r"^\| `(\w+)` \| (\d+) \|$", page.read_text(), re.MULTILINE)
    assert len(told) >= 9
    config = NetworkConfig()
    assert {name: float(value) for name, value in told} == {
        name: getattr(config, name) for name, _ in told
    }

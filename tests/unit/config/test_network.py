"""What no option may be is refused when the configuration is made, with the option's name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import (
    BufferDebloatConfig,
    ClusterConfig,
    FlinknetConfig,
    NetworkConfig,
    WireLimits,
)
from flinknet.errors import ConfigurationError
from tests.naming import spelled

SECTIONS = [BufferDebloatConfig, ClusterConfig, FlinknetConfig, NetworkConfig, WireLimits]
FIELDS = [(section, field.name) for section in SECTIONS for field in fields(section)]


def refusal(section: type[Any], name: str, value: object) -> str:
    with pytest.raises(ConfigurationError) as raised:
        section(**{name: value})
    return str(raised.value)


@pytest.mark.parametrize(
    "value",
    [None, b"1", [1], {}, object(), float("nan"), float("inf"), -float("inf"), 2**1024, 1e300],
    ids=spelled,
)
def test_what_no_field_may_be_is_refused_with_its_name(value: object) -> None:
    for section, name in FIELDS:
        message = refusal(section, name, value)
        assert message.startswith(f"{name} is ")
        assert len(message) < 300


@pytest.mark.parametrize("value", [-(2**63), 2**70, "7", True, 0.5], ids=spelled)
def test_a_silly_value_is_taken_or_refused_with_the_name(value: object) -> None:
    """Some are legal for some fields; none may end in an error of another type."""
    for section, name in FIELDS:
        with suppress(ConfigurationError):
            section(**{name: value})
            continue
        assert name in refusal(section, name, value)


def test_a_negative_number_is_refused() -> None:
    for section, name in FIELDS:
        if type(getattr(section(), name)) in (int, float):
            assert name in refusal(section, name, -2)


@given(
    workers=st.integers(1, 100),
    data_port=st.integers(0, 65535),
    coordinator_port=st.integers(0, 65535),
)
def test_no_two_processes_are_given_one_port(
    workers: int, data_port: int, coordinator_port: int
) -> None:
    try:
        ClusterConfig(workers=workers, data_port=data_port, coordinator_port=coordinator_port)
    except ConfigurationError:
        return
    ports = [coordinator_port, *range(data_port, data_port + workers)] if data_port else []
    assert len(set(ports)) == len(ports)
    assert max(ports, default=0) <= 65535


def test_equal_ports_are_refused_with_both_options() -> None:
    message = refusal_of_ports(data_port=7000, coordinator_port=7001, workers=2)
    assert message == (
        "coordinator_port is 7001, which a worker takes too: the 2 workers listen on data_port "
        "7000 to 7001"
    )
    ClusterConfig(data_port=7000, coordinator_port=7002, workers=2)


def refusal_of_ports(**options: int) -> str:
    with pytest.raises(ConfigurationError) as raised:
        ClusterConfig(**options)  # type: ignore[arg-type]
    return str(raised.value)


def test_a_handshake_that_holds_no_hello_is_refused() -> None:
    assert refusal(WireLimits, "handshake_bytes_max", 64).startswith("handshake_bytes_max is 64: ")

"""The limits of a cluster: contradictory values are refused, with the option to change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError


def refusal(**options: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        ClusterConfig(**options)
    return str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": -1}, "workers is -1: choose 1 to 1024 worker processes"),
        ({"workers": 1025}, "workers is 1025: choose 1 to 1024 worker processes"),
        ({"slots_per_worker": 0}, "slots_per_worker is 0: choose 1 to 4096"),
        ({"coordinator_port": 65536}, "coordinator_port is 65536: choose 0"),
        ({"data_port": -1}, "data_port is -1: choose 0"),
        ({"start_timeout_ms": 0}, "start_timeout_ms is 0: choose a positive duration"),
        (
            {"heartbeat_interval_ms": 1000, "heartbeat_timeout_ms": 1999},
            "heartbeat_timeout_ms is 1999: choose at least twice heartbeat_interval_ms (1000)",
        ),
        (
            {"heartbeat_interval_ms": 1000, "coordinator_timeout_ms": 1999},
            "coordinator_timeout_ms is 1999: choose at least twice heartbeat_interval_ms (1000)",
        ),
        (
            {"workers": 3, "http_connections_max": 15},
            "http_connections_max is 15: choose at least four for each of the 3 workers, and four",
        ),
        ({"collect_records_max": -1}, "collect_records_max is -1: choose 0 or more"),
        ({"jobs_retained": 0}, "jobs_retained is 0: choose 1 or more"),
        ({"lost_workers_retained": 0}, "lost_workers_retained is 0: choose 1 or more"),
        ({"job_shape_bytes_max": 1023}, "job_shape_bytes_max is 1023: choose 1024 or more"),
        ({"job_bytes_max": 1023}, "job_bytes_max is 1023: choose 1024 or more"),
    ],
)
def test_a_limit_is_refused_with_what_to_choose(options: dict[str, Any], message: str) -> None:
    assert refusal(**options).startswith(message)


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
    message = refusal(data_port=7000, coordinator_port=7001, workers=2)
    assert message == (
        "coordinator_port is 7001, which a worker uses too: the 2 workers listen on data_port "
        "7000 to 7001"
    )
    ClusterConfig(data_port=7000, coordinator_port=7002, workers=2)


def test_data_and_metrics_do_not_share_ports() -> None:
    message = refusal(data_port=7000, metrics_port=7001, workers=2)
    assert message == (
        "metrics_port is 7001 and data_port 7000: choose them 2 apart at least, because each of "
        "the workers takes one of both"
    )
    ClusterConfig(data_port=7000, metrics_port=7002, workers=2)


def test_the_last_worker_needs_a_port_too() -> None:
    ClusterConfig(data_port=65534, workers=2)
    assert refusal(data_port=65534, workers=3) == (
        "data_port 65534 with 3 workers exceeds port 65535"
    )


def test_as_many_lost_workers_are_remembered_as_there_are_workers() -> None:
    assert ClusterConfig(workers=120).lost_workers_remembered == 120
    assert ClusterConfig(workers=2).lost_workers_remembered == 100

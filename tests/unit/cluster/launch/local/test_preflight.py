"""A cluster that this machine cannot run is refused before any start."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from flinknet.cluster.launch.local.preflight import check_cluster
from flinknet.config import TOKEN_VARIABLE, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.errors import ConfigurationError


def config(**cluster: object) -> FlinknetConfig:
    return FlinknetConfig(cluster=ClusterConfig(**cluster))  # type: ignore[arg-type]


def test_a_default_cluster_can_start() -> None:
    check_cluster(FlinknetConfig())


@pytest.mark.parametrize("option", ["coordinator_port", "data_port", "metrics_port"])
def test_a_port_in_use_is_refused(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"port {port} .*cluster.{option}, or 0"):
            check_cluster(config(workers=1, **{option: port}))
    check_cluster(config(workers=1, **{option: port}))


def test_the_metrics_port_may_be_in_use_if_no_process_serves_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_cluster(config(workers=1, metrics_port=port, metrics=False))


def test_every_data_port_is_checked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # The two ports before it may be in use as well.
        with pytest.raises(ConfigurationError, match=f"port ({port - 2}|{port - 1}|{port}) "):
            check_cluster(config(data_port=port - 2, workers=3))


def test_an_address_that_others_can_reach_wants_authentication(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wildcard address also needs the address under which the machine is reached."""
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    advice = r"0\.0\.0\.0.*FLINKNET_CLUSTER_TOKEN or cluster\.token_file.*cluster\.tls.*loopback"
    with pytest.raises(ConfigurationError, match=advice):
        check_cluster(config(host="0.0.0.0", advertised_host="127.0.0.1"))
    monkeypatch.setenv(TOKEN_VARIABLE, "of sixteen letters".replace(" ", "-"))
    check_cluster(config(host="0.0.0.0", advertised_host="127.0.0.1"))
    with pytest.raises(ConfigurationError, match=r"cluster\.advertised_host"):
        check_cluster(config(host="0.0.0.0"))
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1 cannot be used"):
        check_cluster(config(host="192.0.2.1"))


def test_more_memory_than_the_machine_has_is_refused() -> None:
    huge = replace(config(workers=100), network=NetworkConfig(network_memory_bytes=2**43))
    with pytest.raises(ConfigurationError, match=r"100 workers.*network_memory_bytes.*--workers"):
        check_cluster(huge)

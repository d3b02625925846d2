"""Checks that this machine can run the cluster, before any process is started: sizes and ports."""

from __future__ import annotations

import socket

from flinknet.cluster.control.credentials import token_is_given
from flinknet.cluster.control.event_loop import loop_factory
from flinknet.config import TOKEN_VARIABLE, ClusterConfig, FlinknetConfig
from flinknet.config.temporary_directory import temporary_directory
from flinknet.errors import ConfigurationError
from flinknet.net.address import is_any_address, is_loopback
from flinknet.net.machine import check_machine
from flinknet.net.tls import tls_of

__all__ = ["check_cluster"]


def check_cluster(config: FlinknetConfig) -> None:
    """Raise ConfigurationError if the cluster cannot be started on this machine."""
    _check_host(config.cluster)
    temporary_directory()
    check_machine(config.network, config.cluster.workers)
    loop_factory(config.cluster)
    cluster = config.cluster
    tls_of(cluster.tls)
    if cluster.coordinator_port:
        _check_port(cluster.host, cluster.coordinator_port, "cluster.coordinator_port")
    metrics_port = cluster.metrics_port if cluster.metrics else 0
    for option, first in (("data_port", cluster.data_port), ("metrics_port", metrics_port)):
        for port in range(first, first + cluster.workers) if first else ():
            _check_port(cluster.host, port, f"cluster.{option}")


def _check_host(cluster: ClusterConfig) -> None:
    if not (is_loopback(cluster.host) or token_is_given(cluster.token_file) or cluster.tls.is_on):
        raise ConfigurationError(
            f"cluster.host is {cluster.host}, which other machines may reach: set a secret in "
            f"{TOKEN_VARIABLE} or cluster.token_file, or configure cluster.tls, or listen on "
            "loopback, 127.0.0.1 or ::1"
        )
    if is_any_address(cluster.host) and not cluster.advertised_host:
        raise ConfigurationError(
            f"cluster.host is {cluster.host}, which is every address of this machine: set "
            "cluster.advertised_host to the one that other machines use"
        )
    _check_port(cluster.host, 0, "cluster.host")


def _check_port(host: str, port: int, option: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # The servers set this option, too, so that a port in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"port {port} of {host} cannot be used ({error.strerror}): stop the program that "
                f"listens there, or choose another {option}, or 0 for free ports"
            ) from error

"""The cluster that a command addresses, and a client for it; shared by all commands."""

from __future__ import annotations

from pathlib import Path

from flinknet.cli.arguments import cluster_config
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.launch.cluster_directory import DEFAULT_NAME, ClusterDirectory
from flinknet.cluster.launch.named_clusters import NamedCluster, named_cluster
from flinknet.errors import ConfigurationError

__all__ = ["cluster_client", "running_cluster"]


def running_cluster(cluster: str | None, config: Path | None) -> NamedCluster:
    """Return the cluster that a command addresses.

    It is the cluster of that name or address, or else the configured one, or else this machine's
    cluster ``default``. Raises ConfigurationError if none of these applies, or if its token is
    unknown.
    """
    if cluster is not None:
        return named_cluster(cluster, config)
    settings = cluster_config(config, None, None, None).cluster
    if settings.coordinator_port:
        return named_cluster(f"{settings.host}:{settings.coordinator_port}", config)
    if ClusterDirectory(DEFAULT_NAME).running() is not None:
        return named_cluster(DEFAULT_NAME, config)
    raise ConfigurationError(
        f"no cluster is given, and the cluster {DEFAULT_NAME} is not running: use --cluster NAME, "
        "or --cluster HOST:PORT with the address that the coordinator has printed, or set "
        "cluster.coordinator_port in the configuration of the coordinator and of this command"
    )


def cluster_client(cluster: str | None, config: Path | None) -> CoordinatorClient:
    """Return a client of that cluster."""
    found = running_cluster(cluster, config)
    return CoordinatorClient(found.address, found.token, found.config.cluster)

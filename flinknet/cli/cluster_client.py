"""The cluster that a command is about, and a client of it: one place for all commands."""

from __future__ import annotations

from pathlib import Path

from flinknet.cli.arguments import cluster_config
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.launch.cluster_directory import DEFAULT_NAME, ClusterDirectory
from flinknet.cluster.launch.named_clusters import NamedCluster, named_cluster
from flinknet.errors import ConfigurationError

__all__ = ["cluster_client", "running_cluster"]


def running_cluster(cluster: str | None, config: Path | None) -> NamedCluster:
    """Return the cluster of that name or address, or the one that the configuration names, or the
    one of this machine that is called ``default``; ConfigurationError if it is not known which, or
    what its token is."""
    if cluster is not None:
        return named_cluster(cluster, config)
    settings = cluster_config(config, None, None, None).cluster
    if settings.coordinator_port:
        return named_cluster(f"{settings.host}:{settings.coordinator_port}", config)
    if ClusterDirectory(DEFAULT_NAME).running() is not None:
        return named_cluster(DEFAULT_NAME, config)
    raise ConfigurationError(
        "the cluster is not known: name it by --cluster NAME or --cluster HOST:PORT, as its "
        "coordinator says where it listens, or set cluster.coordinator_port for both"
    )


def cluster_client(cluster: str | None, config: Path | None) -> CoordinatorClient:
    """Return a client of that cluster."""
    found = running_cluster(cluster, config)
    return CoordinatorClient(found.address, found.token, found.config.cluster)

"""Clusters for programs, one of each kind, kept for many programs."""

from __future__ import annotations

from flinknet.cluster import LocalCluster
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig

__all__ = ["CLUSTERS", "cluster_of"]

MIB = 2**20

CLUSTERS: dict[str, NetworkConfig] = {
    "one worker, small buffers": NetworkConfig(
        segment_bytes=256, network_memory_bytes=2 * MIB, record_bytes_max=MIB
    ),
    "two workers": NetworkConfig(network_memory_bytes=16 * MIB, segment_bytes=4096),
}
"""The network configuration of each kind of cluster.

In one kind records travel in memory, and most span buffers; in the other, mostly over sockets.
"""

SLOTS = 24
"""Slots of each cluster: more than any program's operators need, in two slot sharing groups."""


def cluster_of(kind: str, heard: list[str]) -> LocalCluster:
    """Return a cluster of a kind, not yet entered, that appends its output to ``heard``."""
    workers = 1 if kind.startswith("one") else 2
    config = FlinknetConfig(
        network=CLUSTERS[kind],
        cluster=ClusterConfig(workers=workers, slots_per_worker=SLOTS // workers),
    )

    def hear(process: str, line: str) -> None:
        heard.append(f"{process}: {line}")

    return LocalCluster(config, on_output=hear, on_printed=heard.append)

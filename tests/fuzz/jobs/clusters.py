"""The clusters that programs run on, by kind; each is kept for many programs."""

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
"""What records of each travel in: through memory and buffers that most records span, or mostly
through sockets."""

SLOTS = 24
"""Of each cluster: more than the operators of any program need, in two sharing groups."""


def cluster_of(kind: str, heard: list[str]) -> LocalCluster:
    """Return a cluster of a kind, to be entered; what its processes say is appended to
    ``heard``."""
    workers = 1 if kind.startswith("one") else 2
    config = FlinknetConfig(
        network=CLUSTERS[kind],
        cluster=ClusterConfig(workers=workers, slots_per_worker=SLOTS // workers),
    )

    def hear(process: str, line: str) -> None:
        heard.append(f"{process}: {line}")

    return LocalCluster(config, on_output=hear, on_printed=heard.append)

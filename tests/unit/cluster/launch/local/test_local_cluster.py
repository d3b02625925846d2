"""A local cluster; `tests/integration/test_local_cluster.py` tests its jobs."""

from __future__ import annotations

from flinknet.cluster import LocalCluster
from flinknet.cluster.launch.process_output import COORDINATOR
from flinknet.config import ClusterConfig, FlinknetConfig


async def test_it_knows_its_processes_with_any_configured_launcher() -> None:
    config = FlinknetConfig(cluster=ClusterConfig(workers=1, launcher="elsewhere"))
    cluster = LocalCluster(config)
    assert cluster.pids() == {}
    async with cluster:
        assert cluster.pids().keys() == {COORDINATOR, "worker-0"}

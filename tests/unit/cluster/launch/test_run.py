"""Refusals of `run_job`; `tests/integration/test_local_cluster.py` tests jobs that it runs."""

from __future__ import annotations

import pytest

from flinknet.cluster import run_job
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.errors import ConfigurationError, InsufficientSlotsError
from tests.unit.cluster.graphs import keyed_graph


async def test_run_job_refuses_a_running_event_loop() -> None:
    with pytest.raises(ConfigurationError, match="execute_async"):
        run_job(keyed_graph())


def test_run_job_refuses_a_job_that_no_cluster_of_this_size_can_run() -> None:
    config = FlinknetConfig(cluster=ClusterConfig(workers=1, slots_per_worker=1))
    with pytest.raises(InsufficientSlotsError, match="--slots 2"):
        run_job(keyed_graph(parallelism=2), config)

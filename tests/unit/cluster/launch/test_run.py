"""What `run_job` refuses: `tests/integration/test_local_cluster.py` has jobs that it runs."""

from __future__ import annotations

import signal
from types import FrameType

import pytest

from flinknet.cluster import run_job
from flinknet.cluster.launch.run import _plain_interrupts
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


@pytest.mark.parametrize("module", ["pyspark.core.context", "of_the_program"])
def test_only_sparks_handler_of_interrupts_is_put_aside(module: str) -> None:
    """It cancels the workers before their job; a program's own is its own matter."""

    def handler(number: int, frame: FrameType | None) -> None:
        pass

    handler.__module__ = module
    before = signal.signal(signal.SIGINT, handler)
    try:
        with _plain_interrupts():
            is_kept = signal.getsignal(signal.SIGINT) is handler
        assert is_kept == (module == "of_the_program")
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)

"""Workers in the place of lost ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import Heartbeat, Register, Released
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.config.restart_strategy import FixedDelayRestart
from tests.unit.cluster.control_plane import (
    CONFIG,
)
from tests.unit.cluster.graphs import keyed_graph


async def test_a_lost_worker_is_replaced_at_once_and_an_unregistered_one_only_if_a_job_waits() -> (
    None
):
    wanted: list[str] = []
    coordinator = Coordinator(CONFIG, wanted.append)
    for number in range(2):
        message = Register(f"worker-{number}", number, f"127.0.0.1:{number + 1}", 2)
        coordinator.dispatcher.register(message, coordinator.now())
    strategy = FixedDelayRestart(attempts=1, delay_ms=1_000_000.0)
    submission = Submission.of_graph(replace(keyed_graph(), restart=strategy))
    record = coordinator.submit(submission)
    coordinator.worker_exited("worker-0", "killed by signal 9 (SIGKILL)")
    assert wanted == ["worker-0"]
    coordinator.worker_exited("worker-0.1", "exited with status 1")
    assert wanted == ["worker-0"], "the next one might not come either"
    coordinator.receive("worker-1", Released(record.job_id, 0))
    assert record.state is JobState.RESTARTING
    coordinator.receive("worker-1", Heartbeat())
    assert wanted == ["worker-0", "worker-0.1"], "a job waits for it"
    coordinator.close("stops")


@pytest.mark.parametrize("comes", [True, False])
async def test_a_job_waits_for_the_replacement_of_a_lost_worker(comes: bool) -> None:
    """The job waits as long as a worker may take to start."""
    patience_ms = 60_000.0 if comes else 1.0
    config = replace(CONFIG, workers=2, slots_per_worker=2, start_timeout_ms=patience_ms)
    coordinator = Coordinator(config)
    for number in range(2):
        message = Register(f"worker-{number}", number, f"127.0.0.1:{number + 1}", 2)
        coordinator.dispatcher.register(message, coordinator.now())
    submission = Submission.of_graph(keyed_graph(parallelism=4))
    assert submission.shape.slots_required() == 4
    coordinator.worker_exited("worker-0", "killed by signal 9 (SIGKILL)")
    waiting = asyncio.create_task(coordinator.wait_for_slots(submission))
    await asyncio.sleep(0)
    if comes:
        assert not waiting.done()
        message = Register("worker-0.1", 2, "127.0.0.1:1", 2)
        coordinator.dispatcher.register(message, coordinator.now())
        coordinator.receive("worker-0.1", Heartbeat())
    await waiting
    coordinator.close("stops")

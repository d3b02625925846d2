"""A stopped coordinator that continues after its replacement changes nothing."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.cluster.control.exit_status import ExitStatus
from tests.free_port import free_port
from tests.integration.standalone import PATIENCE_S, Standalone
from tests.integration.test_absent_workers import RunningJob
from tests.integration.test_recovery import config_of


@pytest.mark.parametrize("same_host", [True, False])
async def test_the_one_that_was_stopped_ends_and_the_answer_is_exact(
    tmp_path: Path, same_host: bool
) -> None:
    """The lock is gone, as on a file system that loses it, or after the removal of its file.

    The second coordinator has another address. On one host the first worker is killed. On another
    host it is stopped together with the first coordinator, and continues with it; only the workers
    that were started for the second coordinator belong to that.
    """
    config = config_of(tmp_path / "checkpoints")
    state = tmp_path / "state"
    cluster = replace(
        config.cluster,
        state_directory=str(state),
        heartbeat_interval_ms=100.0,
        coordinator_timeout_ms=1_500.0,
        slots_per_worker=2,
    )
    async with Standalone(replace(config, cluster=cluster), tmp_path) as standalone:
        job = RunningJob(standalone, tmp_path)
        first = await standalone.coordinator("first", free_port())
        address = standalone.address
        worker = await standalone.worker("one")
        await job.start()
        await job.goes_on()
        first.send_signal(signal.SIGSTOP)
        (state / "lock").unlink()
        if same_host:
            # The stopped coordinator keeps its port, so the worker would have to connect elsewhere.
            worker.kill()
        else:
            worker.send_signal(signal.SIGSTOP)
        await standalone.coordinator("second", free_port())
        await standalone.worker("two")
        await job.move()
        await job.goes_on()
        first.send_signal(signal.SIGCONT)
        if not same_host:
            worker.send_signal(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_S):
            assert await first.wait() == ExitStatus.SUPERSEDED
        assert (
            "coordinator: this coordinator, of epoch 1, is superseded: "
            f"{state} (cluster.state_directory) was taken over by the coordinator of epoch 2"
        ) in standalone.log("first")
        assert address != standalone.address
        await job.goes_on()
        await job.end()
        assert [entry.name for entry in (state / "epochs").iterdir()] == ["2"]

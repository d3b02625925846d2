"""The coordinator on an event loop: its waits, and its end."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.cluster.control.messages import Cancel, Deploy, Register, Released
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.errors import ConfigurationError
from tests.unit.cluster.control_plane import (
    CONFIG,
    ServedCoordinator,
    expect,
    serve_control_plane,
)
from tests.unit.cluster.graphs import keyed_graph


async def test_it_is_ready_once_the_expected_workers_have_registered(
    served: ServedCoordinator,
) -> None:
    async with served.worker("worker-0"):
        assert served.coordinator.registered_workers() == 1
        assert not served.coordinator.ready.is_set()
        async with served.worker("worker-1"):
            await served.coordinator.ready.wait()
            assert served.coordinator.registered_workers() == CONFIG.workers


async def test_a_request_waits_for_the_end_of_a_job(served: ServedCoordinator) -> None:
    coordinator = served.coordinator
    async with served.worker("worker-0") as link:
        record = coordinator.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await coordinator.wait_for_end(record, timeout_s=0.001)
        assert record.ended_at is None
        waiting = asyncio.create_task(coordinator.wait_for_end(record, timeout_s=60.0))
        coordinator.cancel(record)
        await expect(link, Cancel)
        assert not waiting.done()
        await link.send(Released(record.job_id, 0))
        await waiting
        assert record.ended_at is not None
        await coordinator.wait_for_end(record, timeout_s=60.0)


async def test_a_slow_state_directory_delays_deadlines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a silent worker is given up, a thread asks the store whether there is a successor."""
    config = replace(
        CONFIG,
        state_directory=str(tmp_path),
        heartbeat_interval_ms=10.0,
        heartbeat_timeout_ms=20.0,
        coordinator_timeout_ms=60_000.0,
    )
    loop, asked, answers = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    stat = Path.stat

    def late_stat(path: Path, **options: bool) -> os.stat_result:
        if path.parent.name == "epochs":
            loop.call_soon_threadsafe(asked.set)
            assert answers.wait(60.0)
        return stat(path, **options)

    async with serve_control_plane(config) as served, served.worker("worker-0"):
        monkeypatch.setattr(Path, "stat", late_stat)
        await asked.wait()
        async with served.worker("worker-1"):
            assert served.coordinator.registered_workers() == 2
        answers.set()
        while served.coordinator.registered_workers():
            await asyncio.sleep(0)


async def test_a_closed_coordinator_acts_on_no_deadline() -> None:
    coordinator = Coordinator(CONFIG)
    coordinator.close("enough")
    assert coordinator._timer is not None
    assert coordinator._timer.cancelled()


async def test_a_closed_coordinator_takes_neither_jobs_nor_workers(
    served: ServedCoordinator,
) -> None:
    served.coordinator.close("enough")
    with pytest.raises(ConfigurationError, match='job "sums" is refused: the coordinator is'):
        served.coordinator.submit(Submission.of_graph(keyed_graph()))
    async with served.link() as link:
        with pytest.raises(ConfigurationError, match="the coordinator is about to end"):
            await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))


async def test_a_worker_that_does_not_go_is_not_waited_for_for_ever() -> None:
    config = replace(CONFIG, stop_timeout_ms=1.0)
    async with serve_control_plane(config) as served, served.worker("worker-0"):
        served.coordinator.close("enough")
        await served.coordinator.wait_for_workers()
        assert served.coordinator.registered_workers() == 1

"""The coordinator's shell: its waits, and its launcher's reports."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import Cancel, Deploy, Heartbeat, Register, Released
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.coordinator import Coordinator, _Launcher, main
from flinknet.config.restart_strategy import FixedDelayRestart
from flinknet.errors import ConfigurationError, JobError
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


async def test_the_end_of_a_job_is_waited_for(served: ServedCoordinator) -> None:
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


async def test_the_launcher_tells_how_a_worker_ended(served: ServedCoordinator) -> None:
    launcher = _Launcher(served.coordinator, asyncio.get_running_loop())
    async with served.worker("worker-0"):
        news = {"event": "worker_started", "worker_id": "worker-0", "pid": 4711}
        launcher.hear(json.dumps(news).encode())
        how = "killed by signal 9 (SIGKILL)"
        news = {"event": "worker_exited", "worker_id": "worker-0", "how": how}
        await asyncio.to_thread(launcher.hear, json.dumps(news).encode())
        worker = served.coordinator.dispatcher.workers.get("worker-0")
        while served.coordinator.registered_workers():
            await asyncio.sleep(0)
        assert worker is not None
        assert worker.loss is not None
        assert worker.loss.message == how
        launcher.ended()
        with pytest.raises(AssertionError, match="the launcher says hello"):
            launcher.hear(b'{"event": "hello", "worker_id": "worker-0"}')


async def test_what_the_launcher_keeps_goes_with_it(
    served: ServedCoordinator, tmp_path: Path
) -> None:
    (tmp_path / "state" / "jobs").mkdir(parents=True)
    loop = asyncio.get_running_loop()
    _Launcher(served.coordinator, loop, str(tmp_path / "state")).ended()
    assert not (tmp_path / "state").exists()


async def test_a_result_is_kept_before_it_is_taken(tmp_path: Path) -> None:
    config = replace(CONFIG, state_directory=str(tmp_path))
    async with serve_control_plane(config) as served, served.worker("worker-0") as link:
        record = served.coordinator.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        directory = tmp_path / "jobs" / record.job_id
        await served.coordinator.keep_results(record, record.present, {(0, 0): b"body"})
        assert (directory / "results-0-0").exists()
        served.coordinator.forget_result(record)
        assert not (directory / "results-0-0").exists()
        shutil.rmtree(directory)
        with pytest.raises(JobError, match="the coordinator cannot keep a result: "):
            await served.coordinator.keep_results(record, record.present, {(0, 0): b"body"})


async def test_a_store_that_answers_late_holds_up_what_time_does_and_nothing_else(
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


async def test_time_stands_still_for_one_that_is_closed() -> None:
    coordinator = Coordinator(CONFIG)
    coordinator.close("enough")
    assert coordinator._timer is not None
    assert coordinator._timer.cancelled()


async def test_one_that_is_closed_takes_neither_jobs_nor_workers(
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


def test_without_a_token_it_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["coordinator"])
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert main() == ExitStatus.REFUSED
    assert capsys.readouterr().err.startswith("coordinator: no cluster token: set ")


async def test_a_lost_worker_is_wanted_at_once_and_one_that_never_came_if_a_job_misses_it() -> None:
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
async def test_a_job_waits_for_the_worker_in_the_place_of_a_lost_one(comes: bool) -> None:
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

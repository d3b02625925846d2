"""Workers that run real jobs; coordinator and workers run in the test's own event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from flinknet import machine
from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.control.http_transport import http_link
from flinknet.cluster.control.messages import Register, Registered, encode
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.worker import worker as module
from flinknet.cluster.worker.joining import join_again
from flinknet.cluster.worker.worker import (
    TRANSITIONS,
    Worker,
    WorkEvent,
    WorkState,
)
from flinknet.config import NetworkConfig
from flinknet.datastream import CollectSink
from flinknet.environment.cluster_clock import CLUSTER_CLOCK
from flinknet.errors import (
    JobCancelledError,
    JobFailedError,
    WorkerLostError,
)
from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.cluster.control_plane import serve_control_plane, served_websocket
from tests.unit.cluster.graphs import endless_graph, keyed_graph
from tests.unit.cluster.running_cluster import CONFIG, Cluster, running_cluster
from tests.unit.tables import named, shown_in

IMPATIENT = replace(CONFIG, coordinator_timeout_ms=60.0)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as cluster:
        yield cluster


async def until_records_flow(cluster: Cluster, job_id: str) -> None:
    client = cluster.served.client()
    while (await client.progress(job_id, wait_ms=1)).vertices[-1].records_in == 0:
        pass


async def test_a_job_runs_on_two_workers(cluster: Cluster) -> None:
    records = [(f"key {number % 10}", number) for number in range(1000)]
    client = cluster.served.client()
    job_id = await client.submit(Submission.of_graph(keyed_graph(records=records)))
    result = await client.follow(job_id, interval_ms=10_000)
    sums: dict[str, int] = {}
    for key, value in result.collected["Collect"]:
        sums[key] = max(value, sums.get(key, 0))
    assert sums == {f"key {digit}": sum(range(digit, 1000, 10)) for digit in range(10)}
    assert sum(row["records_in"] for row in result.vertices if row["vertex"] == 1) == 1000
    assert {row["worker_id"] for row in result.vertices} == {"worker-0", "worker-1"}
    assert cluster.nothing_is_held()


async def test_jobs_come_one_after_the_other_and_side_by_side(cluster: Cluster) -> None:
    client = cluster.served.client()
    for _ in range(3):
        jobs = [await client.submit(Submission.of_graph(keyed_graph())) for _ in range(2)]
        results = await asyncio.gather(
            *(client.follow(job_id, interval_ms=10_000) for job_id in jobs)
        )
        assert [len(result.collected["Collect"]) for result in results] == [3, 3]
    assert cluster.nothing_is_held()


CONSECUTIVE_JOBS = 100


async def test_jobs_that_take_all_slots_follow_each_other_and_none_is_refused(
    cluster: Cluster,
) -> None:
    """This holds whether the job before finished, failed or was cancelled."""
    client = cluster.served.client()
    for number in range(CONSECUTIVE_JOBS):
        if number % 3 == 0:
            graph = keyed_graph(parallelism=4)
            await client.follow(await client.submit(Submission.of_graph(graph)), interval_ms=10_000)
        elif number % 3 == 1:
            graph = keyed_graph(parallelism=4, function=fail_on_two)
            job_id = await client.submit(Submission.of_graph(graph))
            with pytest.raises(JobFailedError, match="two is not allowed"):
                await client.follow(job_id, interval_ms=10_000)
        else:
            graph = keyed_graph(parallelism=4)
            await client.cancel(await client.submit(Submission.of_graph(graph)))
    # The last job has finished: its end means that the slots are free.
    workers = cluster.served.coordinator.dispatcher.workers.registered()
    assert [worker.free_slots for worker in workers] == [2, 2]
    assert cluster.nothing_is_held()


def fail_on_two(record: Any) -> Any:
    if record[1] == 2:
        raise ValueError("two is not allowed")
    return record


def stray_cancellation(record: Any) -> Any:
    raise asyncio.CancelledError


def leave(record: Any) -> Any:
    raise SystemExit(3)


def cancel_itself(record: Any) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return record


async def cancel_itself_later(record: Any) -> Any:
    await asyncio.sleep(0)
    cancel_itself(record)


class WithoutTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class LongTextError(Exception):
    def __str__(self) -> str:
        return "x" * 10_000_000


def raises(error: type[Exception], *arguments: Any) -> Callable[[Any], Any]:
    def fail(record: Any) -> Any:
        raise error(*arguments)

    return fail


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fail_on_two, r'"Source: Collection -> Map \(1/1\)" on worker.*two is not allowed'),
        (stray_cancellation, r"failed on a record of type tuple, .*: CancelledError"),
        (
            cancel_itself,
            r"failed on a record of type tuple, .*RuntimeError: no running event loop",
        ),
        (
            cancel_itself_later,
            r"failed on a record of type tuple, .*RuntimeError: the code of a subtask",
        ),
        (leave, r"failed on a record of type tuple, .*: SystemExit: 3"),
        (lambda record: (record[0], range(2)), r"range"),
        (raises(ValueError, "half \ud83d"), r"ValueError: half \\ud83d"),
        (raises(ValueError, "\x1b[2J\x07"), r"ValueError: \\x1b\[2J\\x07"),
        (raises(WithoutTextError), r"WithoutTextError: <WithoutTextError without a text"),
        (raises(LongTextError), r"LongTextError: xxxx"),
    ],
    ids=[
        "ValueError",
        "CancelledError",
        "cancel",
        "cancel later",
        "SystemExit",
        "not serialisable",
        "surrogate",
        "escape sequence",
        "no text",
        "megabytes",
    ],
)
async def test_any_error_of_a_function_is_the_cause(
    cluster: Cluster, function: Any, message: str
) -> None:
    """Its consumer fails, too, and may report first. The user sees the origin."""
    client = cluster.served.client()
    job_id = await client.submit(Submission.of_graph(keyed_graph(function=function)))
    with pytest.raises(JobFailedError, match=message):
        await client.follow(job_id, interval_ms=10_000)
    assert cluster.nothing_is_held()
    assert not any(worker.done() for worker in cluster.workers)


async def test_a_job_that_cannot_be_opened_fails_with_the_reason() -> None:
    """The other worker has opened its subtasks by then, and must release them."""
    async with running_cluster(NetworkConfig(network_memory_bytes=3 * 33024)) as cluster:
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph(parallelism=4)))
        with pytest.raises(
            JobFailedError, match=r"worker-\d \(pid \d+\) failed: InsufficientNetworkBuffers"
        ):
            await client.follow(job_id, interval_ms=10_000)
        assert cluster.nothing_is_held()


async def test_collected_records_over_the_limit_fail_the_job(cluster: Cluster) -> None:
    graph = keyed_graph(function=lambda record: ("x" * 20_000, record[1]))
    client = cluster.served.client()
    job_id = await client.submit(Submission.of_graph(graph))
    with pytest.raises(JobFailedError, match=r"collect_bytes_max = 10000.*Parquet sink"):
        await client.follow(job_id, interval_ms=10_000)


async def test_more_collected_records_than_the_limit_fail_the_job(cluster: Cluster) -> None:
    """This happens at once, as the source never ends."""
    client = cluster.served.client()
    job_id = await client.submit(Submission.of_graph(endless_graph(CollectSink())))
    with pytest.raises(
        JobFailedError, match=r'"out" holds more than .*collect_records_max = 1000 '
    ):
        await client.follow(job_id, interval_ms=10_000)
    assert cluster.nothing_is_held()


async def test_a_job_without_end_is_cancelled(cluster: Cluster) -> None:
    client = cluster.served.client()
    job_id = await client.submit(Submission.of_graph(endless_graph()))
    await until_records_flow(cluster, job_id)
    await client.cancel(job_id)
    with pytest.raises(JobCancelledError):
        await client.follow(job_id, interval_ms=10_000)
    assert cluster.nothing_is_held()


async def test_a_worker_that_is_told_to_stop_cancels_its_subtasks(cluster: Cluster) -> None:
    client = cluster.served.client()
    job_id = await client.submit(Submission.of_graph(endless_graph()))
    await until_records_flow(cluster, job_id)
    cluster.stops[1].set()
    worker_id = cluster.environments[1].worker_id
    with pytest.raises(WorkerLostError, match=worker_id):
        await client.follow(job_id, interval_ms=10_000)
    ended, _ = await asyncio.wait(cluster.workers, return_when=asyncio.FIRST_COMPLETED)
    assert [worker.result() for worker in ended] == [0]


async def test_a_worker_that_loses_the_coordinator_cancels_everything_and_ends() -> None:
    """Its subtasks could not be cancelled any more."""
    async with running_cluster() as cluster:
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(endless_graph()))
        await until_records_flow(cluster, job_id)
        for connection in list(cluster.served.coordinator._connections.values()):
            connection.abort()
        assert await asyncio.gather(*cluster.workers) == [ExitStatus.COORDINATOR_LOST] * 2


async def test_a_worker_that_is_dismissed_ends_well(cluster: Cluster) -> None:
    cluster.served.coordinator.close("enough")
    assert await asyncio.gather(*cluster.workers) == [0, 0]


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


def test_every_end_has_a_status() -> None:
    assert set(module._STATUS) == set(WorkState) - {WorkState.WORKING, WorkState.DRAINING}


ENDS = (WorkEvent.STOP, WorkEvent.LOSE)


@pytest.mark.parametrize("event", ENDS)
async def test_the_first_end_of_a_worker_counts(event: WorkEvent) -> None:
    link = http_link("127.0.0.1:1", new_token(), CONFIG)
    worker = Worker(NetworkEnvironment(worker_id="worker-0"), link, CONFIG)
    assert not worker.drain(), "it has no coordinator"
    worker._end(WorkEvent.JOIN)
    worker._end(event)
    end = TRANSITIONS[WorkState.WORKING, event]
    for later in ENDS:
        worker._end(later)
        assert worker.state is end
    assert not worker.drain(), "it has ended"


@pytest.mark.parametrize("event", ENDS)
async def test_a_worker_that_drains_ends_well(event: WorkEvent) -> None:
    """The loss of the coordinator during the drain makes no difference."""
    link = http_link("127.0.0.1:1", new_token(), CONFIG)
    worker = Worker(NetworkEnvironment(worker_id="worker-0"), link, CONFIG)
    worker._end(WorkEvent.JOIN)
    assert worker.drain()
    assert not worker.drain(), "the second time it should end at once"
    worker._end(event)
    assert worker.state is WorkState.STOPPED


@pytest.mark.parametrize("drain_timeout_ms", [60_000.0, 1.0])
async def test_a_worker_that_drains_waits_for_its_jobs_so_long(drain_timeout_ms: float) -> None:
    config = replace(CONFIG, drain_timeout_ms=drain_timeout_ms)
    async with running_cluster(config=config) as cluster:
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(endless_graph()))
        await until_records_flow(cluster, job_id)
        number = [environment.worker_id for environment in cluster.environments].index("worker-1")
        assert cluster.served_workers[number].drain()
        if drain_timeout_ms > 1.0:
            worker = cluster.served.coordinator.dispatcher.workers.get("worker-1")
            assert worker is not None
            while not worker.drains:
                await asyncio.sleep(0)
            await client.cancel(job_id)
        ended, _ = await asyncio.wait(cluster.workers, return_when=asyncio.FIRST_COMPLETED)
        assert [worker.result() for worker in ended] == [ExitStatus.STOPPED]


async def test_a_worker_joins_the_coordinator_in_the_place_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not join its own coordinator again, which counts it as lost."""
    config = replace(CONFIG, state_directory=str(tmp_path))
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        environment = await stack.enter_async_context(NetworkEnvironment(worker_id="worker-0"))
        message = Register("worker-0", 1, environment.address, 2)
        async with serve_control_plane(config) as first:
            link = await stack.enter_async_context(first.link())
            registered = await link.register(message)
            assert registered.return_ms == config.coordinator_return_ms
            worker = Worker(environment, link, config)
            serving = asyncio.create_task(worker.serve(registered, stop))
            client = first.client()
            job_id = await client.submit(Submission.of_graph(endless_graph()))
            while (await client.progress(job_id)).state != "RUNNING":
                pass
            first.coordinator._connections["worker-0"].abort()
            assert await serving is ExitStatus.COORDINATOR_LOST
            assert not environment.statistics().partitions, "what it ran is cancelled"
            assert await join_again(link, message, 60_000.0, stop) is None
            assert "refuses this worker: worker id worker-0" in capsys.readouterr().err
        joining = asyncio.create_task(join_again(link, message, 60_000.0, stop))
        async with serve_control_plane(config, first) as second:
            another = await joining
            assert another is not None
            serving = asyncio.create_task(worker.serve(another, stop))
            while not second.coordinator.registered_workers():
                await asyncio.sleep(0)
            second.coordinator.close("enough")
            assert await serving is ExitStatus.STOPPED
        assert await join_again(link, message, 1.0, stop) is None
        assert "no coordinator has answered for 1 ms" in capsys.readouterr().err
        assert await join_again(link, message, 0.0, stop) is None
        assert capsys.readouterr().err == "", "none was to come"
        stop.set()
        assert await join_again(link, message, 60_000.0, stop) is None


async def register_only(request: web.Request) -> web.WebSocketResponse:
    """Register a worker, then read on and never answer."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    await socket.receive()
    await socket.send_bytes(encode(Registered(10.0, 10.0)))
    async for _ in socket:
        pass
    return socket


async def test_a_worker_whose_coordinator_falls_silent_ends_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with (
        NetworkEnvironment() as environment,
        served_websocket(register_only) as address,
        http_link(address, new_token(), IMPATIENT) as link,
    ):
        registered = await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))
        worker = Worker(environment, link, IMPATIENT)
        assert await worker.serve(registered, asyncio.Event()) is ExitStatus.COORDINATOR_LOST
    said = capsys.readouterr().err
    assert said.startswith("lost the coordinator: the coordinator at ")
    assert "has not answered for 60 ms (cluster.coordinator_timeout_ms)" in said


async def test_a_blocked_loop_is_no_silence_of_the_coordinator() -> None:
    """It is blocked for many heartbeats, and for twice the time-out.

    A message that it could not read does not count as missing.
    """
    config = replace(CONFIG, coordinator_timeout_ms=500.0)
    async with running_cluster(config=config) as cluster:
        while len(cluster.stops) < config.workers:
            await asyncio.sleep(0)
        # As a user function does.
        time.sleep(2 * config.coordinator_timeout_ms / 1000)  # noqa: ASYNC251
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await client.follow(job_id, interval_ms=10_000)
        assert not any(worker.done() for worker in cluster.workers)


@pytest.mark.parametrize(("step_s", "told"), [(-3600.0, "set back by 3600.0 s"), (90.0, "forward")])
async def test_a_clock_that_is_set_is_reported_once_and_loses_no_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step_s: float, told: str
) -> None:
    """Each process logs it; neither heartbeats nor jobs follow the clock."""
    offset_s, clock = 0.0, time.time
    monkeypatch.setattr(machine, "wall_time", lambda: clock() + offset_s)

    def tellers() -> list[str]:
        return sorted(one.name for one in caplog.records if told in one.getMessage())

    async with running_cluster(config=replace(CONFIG, workers=1)) as cluster:
        job_ids = []
        client = cluster.served.client()
        for is_set in (False, True):
            job_ids.append(await client.submit(Submission.of_graph(keyed_graph())))
            assert (await client.follow(job_ids[-1], interval_ms=10)).state == "FINISHED"
            offset_s = step_s
            while len(tellers()) < 2:
                await asyncio.sleep(0)
            assert tellers() == ["flinknet.coordinator", "flinknet.worker"], is_set
        for job_id in job_ids:
            record = cluster.served.coordinator.dispatcher.job(job_id)
            assert record is not None
            assert abs(record.wall_ms(record.submitted_at) / 1000 - machine.wall_time()) < 60
        assert not any(worker.done() for worker in cluster.workers)


class _Ahead:
    """A machine with a clock ahead of this one's."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s

    def wall_time(self) -> float:
        return machine.wall_time() + self._ahead_s

    def __getattr__(self, name: str) -> Any:
        return getattr(machine, name)


@pytest.mark.parametrize("ahead_s", [0.0, 5.0, -3600.0])
async def test_the_clock_of_a_worker_is_compared_with_its_coordinators(
    monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    """Times that other hosts compare are corrected; clocks that agree are left alone."""
    monkeypatch.setattr(CLUSTER_CLOCK, "ahead_ms", 0)
    async with running_cluster() as cluster:
        monkeypatch.setattr(module, "machine", _Ahead(ahead_s))
        workers = cluster.served.coordinator.dispatcher.workers
        while any(
            worker.clock_error_s is None
            or abs(worker.clock_offset_s - ahead_s) > worker.clock_error_s
            for worker in workers.registered()
        ):
            await asyncio.sleep(0.01)
        assert abs(CLUSTER_CLOCK.ahead_ms - 1000 * ahead_s) < 1_000
        if not ahead_s:
            assert CLUSTER_CLOCK.ahead_ms == 0
    assert CLUSTER_CLOCK.ahead_ms == 0, "no coordinator is left to compare with"

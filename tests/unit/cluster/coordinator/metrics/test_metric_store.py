"""Storing reports, and routing the answers to requests."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.cluster.control.messages import Message, StatisticsReport, StatisticsRequest
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.errors import RemoteProtocolError
from flinknet.metrics.worker_statistics import WorkerStatistics, pack_statistics
from tests.unit.metrics.samples import channel, channel_rows, subtask, worker

CHANNELS = channel_rows(channel(0))


class Store:
    """A metric store, with its requests to workers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Message]] = []
        self.store = MetricStore(lambda *sent: self.asked.append(sent), 5.0)

    def report(
        self, worker_id: str, statistics: WorkerStatistics, request: int = 0, now: float = 1.0
    ) -> None:
        report = StatisticsReport(request, pack_statistics(statistics, 10**6))
        self.store.take(worker_id, report, now)

    async def ask(self, worker_id: str, timeout_s: float = 60.0) -> asyncio.Task[object]:
        fetch = self.store.fetch(worker_id, channels_max=5, timeout_s=timeout_s)
        task: asyncio.Task[object] = asyncio.create_task(fetch)
        while not self.asked:
            await asyncio.sleep(0)
        return task


@pytest.fixture
def store() -> Store:
    return Store()


def test_the_latest_report_of_each_worker_is_kept(store: Store) -> None:
    store.report("worker-0", worker(subtasks=1), now=1.0)
    store.report("worker-1", worker(subtasks=2), now=2.0)
    store.report("worker-0", worker(subtasks=3), now=3.0)
    latest = store.store.latest()
    seen = {name: (len(one.statistics.subtasks), one.at) for name, one in latest.items()}
    assert seen == {"worker-0": (3, 3.0), "worker-1": (2, 2.0)}


def test_the_subtasks_of_a_job_are_found_by_worker(store: Store) -> None:
    other = subtask(job_id="4711")
    store.report("worker-0", worker()._replace(subtasks=(other, subtask())))
    store.report("worker-1", worker()._replace(subtasks=(other,)))
    assert store.store.of_job("0815") == {"worker-0": (subtask(),)}


async def test_a_question_gets_the_answer_with_its_channels(store: Store) -> None:
    asking = await store.ask("worker-0")
    assert store.asked == [("worker-0", StatisticsRequest(1, 5))]
    store.report("worker-0", worker())
    store.report("worker-1", worker(), request=1)
    assert not asking.done(), "neither of these is the answer"
    answer = worker()._replace(channels=CHANNELS)
    store.report("worker-0", answer, request=1)
    assert await asking == answer
    assert store.store.latest()["worker-0"].statistics.channels == ()


async def test_two_questions_get_one_answer_each(store: Store) -> None:
    first, second = await store.ask("worker-0"), await store.ask("worker-0")
    while len(store.asked) < 2:
        await asyncio.sleep(0)
    store.report("worker-0", worker(subtasks=2), request=2)
    store.report("worker-0", worker(subtasks=1), request=1)
    assert (await first, await second) == (worker(subtasks=1), worker(subtasks=2))


async def test_a_question_to_a_lost_worker_fails(store: Store) -> None:
    store.report("worker-0", worker())
    asking = await store.ask("worker-0")
    store.store.forget("worker-1")
    assert not asking.done()
    store.store.forget("worker-0")
    assert await asking is None
    assert store.store.latest() == {}


async def test_a_worker_that_is_mute_is_not_waited_for_for_ever(store: Store) -> None:
    asking = await store.ask("worker-0", timeout_s=0.001)
    with pytest.raises(TimeoutError):
        await asking
    store.report("worker-0", worker(), request=1)  # no request waits for it any more


def test_malformed_statistics_are_refused_with_the_workers_id(store: Store) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed statistics of worker-0: no Worker"):
        store.store.take("worker-0", StatisticsReport(0, b"\x90"), 1.0)

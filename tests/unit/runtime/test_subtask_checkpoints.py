"""A subtask's part in checkpoints: captured between two batches, written beside the records."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from errno import ENOSPC
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.store import CheckpointStore
from flinknet.datastream import (
    CheckpointedFunction,
    CheckpointedSink,
    CheckpointingMode,
    CheckpointListener,
    CollectSink,
    CommitContext,
    Committer,
    DataStream,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    GeneratorSource,
    KeyedProcessFunction,
    MapFunction,
    OnTimerContext,
    ProcessContext,
    RateLimitedSource,
    RuntimeContext,
    SinkFunction,
    Source,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    TwoPhaseSink,
    WatermarkStrategy,
)
from flinknet.environment.processing_time import wall_clock_ms
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.graph.graph import JobGraph
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.operators.source import read
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.runtime import subtask_checkpoints
from flinknet.runtime.chain import OperatorChain
from flinknet.runtime.execution_state import ExecutionState
from flinknet.runtime.restored_state import RestoredState
from flinknet.runtime.subtask import Subtask
from flinknet.state.state_handler import OperatorSnapshot
from flinknet.wire.events import Alignment, CheckpointBarrier, CheckpointKind, CheckpointOptions
from tests.unit.runtime.checkpointed import Answers, deploy, store_in, trigger
from tests.unit.runtime.running import environments

BARRIER = CheckpointBarrier(1, 1_000)
RECORDS = 4_000
KEYS = 7


def sums(
    function: Any = lambda record: record,
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE,
    parallelism: int = 2,
    rate: float = 20_000.0,
    unaligned: bool = False,
    sources: int = 2,
) -> JobGraph:
    """Return a job that sums numbers by key, from two slow sources."""
    environment = StreamExecutionEnvironment().set_parallelism(2).set_max_parallelism(8)
    environment.enable_checkpointing(1000, mode)
    environment.get_checkpoint_config().enable_unaligned_checkpoints(unaligned)
    numbers = GeneratorSource(lambda number: (number % KEYS, number), RECORDS)
    source = environment.from_source(RateLimitedSource(numbers, rate)).set_parallelism(sources)
    stream = source.map(function).set_parallelism(sources)
    totals = stream.key_by(lambda record: record[0]).reduce(
        lambda one, other: (one[0], one[1] + other[1]), emit="end_of_input"
    )
    totals.set_parallelism(parallelism)
    totals.sink_to(CollectSink()).name("sums").set_parallelism(parallelism)
    return environment.job_graph("sums")


EXPECTED = sorted((key, sum(range(key, RECORDS, KEYS))) for key in range(KEYS))


def collected(results: list[Any]) -> list[Any]:
    return sorted(record for result in results for record in result.collected.get("sums", []))


NOT_YET_RUNNING = ExecutionState.DEPLOYING, ExecutionState.INITIALIZING


@asynccontextmanager
async def running(subtasks: dict[str, Subtask]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Open and run subtasks in this block; cancel those that still run at its end."""
    for subtask in subtasks.values():
        subtask.open()
    tasks = [asyncio.create_task(subtask.run()) for subtask in subtasks.values()]
    try:
        while any(subtask.state in NOT_YET_RUNNING for subtask in subtasks.values()):
            for task in tasks:
                if task.done():
                    task.result()  # If it has failed, others may never run.
            await asyncio.sleep(0)
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def workers() -> AsyncIterator[list[NetworkEnvironment]]:
    async with environments(2) as workers:
        yield workers


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return store_in(tmp_path)


OPTIONS = {
    "aligned": CheckpointOptions(),
    "unaligned": CheckpointOptions(alignment=Alignment.UNALIGNED),
    "alternating": CheckpointOptions(aligned_timeout_ms=1),
    "alternating, in time": CheckpointOptions(aligned_timeout_ms=600_000),
}


@pytest.mark.parametrize("how", OPTIONS)
@pytest.mark.parametrize("parallelism", [2, 1, 3])
async def test_a_job_goes_on_where_a_checkpoint_found_it(
    workers: list[NetworkEnvironment], store: CheckpointStore, parallelism: int, how: str
) -> None:
    """Keyed state may get another parallelism, and records may be in flight.

    No record is lost or counted twice.
    """
    barrier = CheckpointBarrier(1, wall_clock_ms(), OPTIONS[how])
    graph, answers = sums(unaligned=how != "aligned"), Answers()
    subtasks = deploy(graph, workers, store, answers)
    async with running(subtasks):
        while any(not subtask.io_metrics().records_in for subtask in subtasks.values()):
            await asyncio.sleep(0)
        trigger(subtasks, barrier)
        await answers.until(reports=4)
        assert not answers.declines
    restored = RestoredState(store, answers.metadata(graph))
    again = sums(parallelism=parallelism, rate=1e9)
    restarted = deploy(again, workers, store, Answers(), attempt=1, restored=restored)
    async with running(restarted) as tasks:
        results = await asyncio.gather(*tasks)
    assert collected(results) == EXPECTED
    named = zip(restarted, results, strict=True)
    read = [result.records_in for name, result in named if name.startswith("Source")]
    assert 0 < sum(read) < RECORDS, "not from the beginning"


@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 3), (1, 2), (3, 2)])
async def test_sources_go_on_at_another_parallelism(
    workers: list[NetworkEnvironment], store: CheckpointStore, before: int, after: int
) -> None:
    """Each record is read once, by the subtask that it belongs to now."""
    graph, answers = sums(sources=before), Answers()
    subtasks = deploy(graph, workers, store, answers)
    async with running(subtasks):
        while any(not subtask.io_metrics().records_in for subtask in subtasks.values()):
            await asyncio.sleep(0)
        trigger(subtasks, BARRIER)
        await answers.until(reports=before + 2)
        assert not answers.declines
    restored = RestoredState(store, answers.metadata(graph))
    again = sums(sources=after, rate=1e9)
    restarted = deploy(again, workers, store, Answers(), attempt=1, restored=restored)
    async with running(restarted) as tasks:
        results = await asyncio.gather(*tasks)
    assert collected(results) == EXPECTED
    named = zip(restarted, results, strict=True)
    read = [result.records_in for name, result in named if name.startswith("Source")]
    assert len(read) == after
    assert all(read), "every source has something left"
    assert sum(read) < RECORDS, "not from the beginning"


class Uneven(Source):
    """A source: its first subtask reads at once, the others read one batch and then wait."""

    replayable = deals_out_records = True
    may_end: ClassVar[asyncio.Event]

    async def batches_after(self, context: RuntimeContext, position: int) -> AsyncIterator[Any]:
        numbers = GeneratorSource(lambda number: (number % KEYS, number), RECORDS)
        async for batch in read(numbers, context, position):
            yield batch
            while context.index and not self.may_end.is_set():
                await self.may_end.wait()

    def batches(self, context: RuntimeContext) -> AsyncIterator[Any]:
        return self.batches_after(context, 0)


def uneven(sources: int) -> JobGraph:
    environment = StreamExecutionEnvironment().set_parallelism(2).set_max_parallelism(8)
    environment.enable_checkpointing(1000)
    numbers = environment.from_source(Uneven())
    totals = (
        numbers.set_parallelism(sources)
        .key_by(lambda record: record[0])
        .reduce(lambda one, other: (one[0], one[1] + other[1]), emit="end_of_input")
    )
    totals.sink_to(CollectSink()).name("sums")
    return environment.job_graph("uneven")


@pytest.mark.parametrize("after", [1, 2, 5])
async def test_some_sources_had_finished_and_the_rest_goes_on_at_any_parallelism(
    workers: list[NetworkEnvironment], store: CheckpointStore, after: int
) -> None:
    """O2: the records that the other subtasks had not read are read once."""
    Uneven.may_end = asyncio.Event()
    graph, answers = uneven(3), Answers()
    subtasks = deploy(graph, workers, store, answers)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await tasks[list(subtasks).index("Source: Uneven (1/3)")]
        trigger(subtasks, BARRIER)
        await answers.until(reports=4)
    metadata = answers.metadata(graph, finished=[(0, 0)])
    Uneven.may_end.set()
    restored = RestoredState(store, metadata)
    restarted = deploy(uneven(after), workers, store, Answers(), attempt=1, restored=restored)
    async with asyncio.timeout(60), running(restarted) as tasks:
        results = await asyncio.gather(*tasks)
    assert collected(results) == EXPECTED
    named = zip(restarted, results, strict=True)
    read = sum(result.records_in for name, result in named if name.startswith("Source"))
    assert 0 < read < RECORDS * 2 // 3, "nothing of the first, and not from the beginning"


async def test_a_collect_sink_has_each_record_once(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """The records before the checkpoint are its state."""

    def graph(rate: float) -> JobGraph:
        environment = StreamExecutionEnvironment()
        environment.enable_checkpointing(1000)
        numbers = GeneratorSource(lambda number: number, RECORDS)
        stream = environment.from_source(RateLimitedSource(numbers, rate))
        stream.sink_to(CollectSink()).name("all")
        return environment.job_graph("all")

    answers = Answers()
    subtasks = deploy(graph(20_000.0), workers, store, answers)
    async with running(subtasks):
        while any(not subtask.io_metrics().records_in for subtask in subtasks.values()):
            await asyncio.sleep(0)
        trigger(subtasks, BARRIER)
        await answers.until(reports=1)
    restored = RestoredState(store, answers.metadata(graph(1.0)))
    restarted = deploy(graph(1e9), workers, store, Answers(), attempt=1, restored=restored)
    async with running(restarted) as tasks:
        (result,) = await asyncio.gather(*tasks)
    assert result.records_in < RECORDS
    assert result.collected["all"] == list(range(RECORDS))


async def test_numbers_that_a_subtask_reports(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    graph, answers = sums(), Answers()
    subtasks = deploy(graph, workers, store, answers)
    async with running(subtasks) as tasks:
        trigger(subtasks, BARRIER)
        await answers.until(reports=4)
        assert all(report.start_delay_ms > 0 for report in answers.reports.values())
        assert all(report.state_bytes > 0 for report in answers.reports.values())
        assert not answers.declines
        await asyncio.gather(*tasks)
    assert all(task.result().checkpoint_taken == 1 for task in tasks)


async def test_at_least_once_blocks_no_channel(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    answers = Answers()
    subtasks = deploy(sums(mode=CheckpointingMode.AT_LEAST_ONCE), workers, store, answers)
    barrier = CheckpointBarrier(1, 1_000, CheckpointOptions(alignment=Alignment.AT_LEAST_ONCE))
    async with running(subtasks) as tasks:
        trigger(subtasks, barrier)
        await answers.until(reports=4)
        assert collected(await asyncio.gather(*tasks)) == EXPECTED


async def test_a_finished_subtask_receives_only_the_ends_of_its_channels(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O2: a subtask that was finished in the restored checkpoint does not run its operators."""
    answers = Answers()
    subtasks = deploy(sums(), workers, store, answers, finished=True)
    for subtask in subtasks.values():
        subtask.open()
    tasks = [asyncio.create_task(subtask.run()) for subtask in subtasks.values()]
    results = await asyncio.gather(*tasks)
    assert collected(results) == []
    assert [result.checkpoint_taken for result in results] == [-1] * 4
    trigger(subtasks, BARRIER)
    assert not answers.reports, "it has ended"


class UntilAWindow(Source):
    """A source that stays silent until its records have made a window fire."""

    parallelism = 2
    fired: ClassVar[asyncio.Event]

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[Any]]:
        yield [0, 1_500]
        await self.fired.wait()


def has_fired(value: Any) -> Any:
    UntilAWindow.fired.set()
    return value


async def test_event_time_of_a_finished_source_is_not_awaited(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O2: of two sources, one was finished in the restored checkpoint, and the windows behind
    follow the time of the other. This also holds behind an intermediate subtask with only
    finished sources."""
    UntilAWindow.fired = asyncio.Event()
    environment = StreamExecutionEnvironment().set_parallelism(1)
    environment.get_config().set_auto_watermark_interval(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    by_time = strategy.with_timestamp_assigner(lambda value, stamp: value)

    def numbers(name: str) -> DataStream:
        source = environment.from_source(UntilAWindow()).set_parallelism(2).name(name)
        return source.assign_timestamps_and_watermarks(by_time).set_parallelism(2)

    running_on, over = numbers("here"), numbers("over").rebalance().map(lambda value: value)
    both = running_on.union(over).key_by(lambda value: 0)
    windows = both.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    counts = windows.apply(lambda key, window, inputs: [(window.start, len(inputs))])
    counts.map(has_fired).sink_to(CollectSink()).name("sums")
    graph = environment.job_graph("windows")
    mapped = next(vertex.id for vertex in graph.vertices if vertex.name.startswith("Map"))
    before = next(edge.source for edge in graph.edges if edge.target == mapped)
    first = next(vertex.id for vertex in graph.vertices if vertex.id not in (mapped, before))
    finished = {(first, 0), (before, 0), (before, 1), (mapped, 0)}
    subtasks = deploy(graph, workers, store, Answers(), some_finished=finished)
    async with asyncio.timeout(30), running(subtasks) as tasks:
        results = await asyncio.gather(*tasks)
    assert collected(results) == [(0, 1), (1_000, 1)]


class Opening(MapFunction):
    """A function that takes its time to open."""

    may_open: ClassVar[asyncio.Event]

    async def open(self, context: RuntimeContext) -> None:
        await self.may_open.wait()

    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("kind", [CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT])
async def test_a_subtask_that_is_not_ready_begins_a_checkpoint_later(
    workers: list[NetworkEnvironment], store: CheckpointStore, kind: CheckpointKind
) -> None:
    """The coordinator knows that all subtasks were told to run, but not that all state is restored.

    It would wait for a dropped checkpoint until its time-out. A checkpoint that it has given up is
    not begun.
    """
    Opening.may_open = asyncio.Event()
    answers = Answers()
    subtasks = deploy(sums(Opening()), workers, store, answers)
    for subtask in subtasks.values():
        subtask.open()
    trigger(subtasks, CheckpointBarrier(1, 1_000))
    tasks = [asyncio.create_task(subtask.run()) for subtask in subtasks.values()]
    sources = [subtask for name, subtask in subtasks.items() if name.startswith("Source")]
    while any(subtask.state is not ExecutionState.INITIALIZING for subtask in sources):
        await asyncio.sleep(0)
    for subtask in subtasks.values():
        subtask.abort_checkpoint(1)
    trigger(subtasks, CheckpointBarrier(2, 1_000, CheckpointOptions(kind)))
    Opening.may_open.set()
    async with asyncio.timeout(60):
        await answers.until(reports=4)
        results = await asyncio.gather(*tasks)
    assert collected(results) == EXPECTED
    assert {result.checkpoint_taken for result in results} == {2}
    assert not answers.declines


class Refusing(MapFunction, CheckpointedFunction):
    """A function with state that cannot be captured."""

    def map(self, value: Any) -> Any:
        return value

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Do nothing: this function restores no state."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        raise ValueError("not now")


async def test_a_failed_capture_declines_the_checkpoint_and_not_the_job(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """The downstream subtasks are told, and none stays blocked.

    They do not decline it too: the first decline decides whether it counts as a failure, and only
    that subtask knows the reason.
    """
    answers = Answers()
    subtasks = deploy(sums(Refusing()), workers, store, answers)
    async with running(subtasks) as tasks:
        trigger(subtasks, BARRIER)
        await answers.until(declines=2)
        assert collected(await asyncio.gather(*tasks)) == EXPECTED
    assert [decline[2:] for decline in answers.declines] == [
        (CheckpointFailureReason.DECLINED, "ValueError: not now")
    ] * 2
    assert not answers.reports


async def test_a_checkpoint_that_comes_too_early_is_declined_as_that(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    answers = Answers()
    subtasks = deploy(sums(), workers, store, answers)
    async with running(subtasks) as tasks:
        (sink, *_) = [one for name, one in subtasks.items() if not name.startswith("Source")]
        assert sink._checkpoints is not None
        sink._checkpoints.abort(1, AbortReason.NOT_READY)
        await answers.until(declines=1)
        assert collected(await asyncio.gather(*tasks)) == EXPECTED
    ((_, _, reason, why),) = answers.declines
    assert reason is CheckpointFailureReason.NOT_READY
    assert why == AbortReason.NOT_READY.value


async def test_a_place_that_fails_fails_the_checkpoint_and_not_the_job(
    workers: list[NetworkEnvironment], tmp_path: Path
) -> None:
    (tmp_path / "job").write_text("a file where a directory must be")
    answers, store = Answers(), store_in(tmp_path)
    subtasks = deploy(sums(), workers, store, answers)
    large = [subtask for name, subtask in subtasks.items() if name.startswith("Source")]
    assert large
    async with running(subtasks) as tasks:
        object.__setattr__(store.config, "inline_bytes_max", 0)
        trigger(subtasks, BARRIER)
        await answers.until(declines=4)
        assert collected(await asyncio.gather(*tasks)) == EXPECTED
    assert {decline[2] for decline in answers.declines} == {CheckpointFailureReason.ASYNC_FAILURE}


async def test_a_full_disk_is_told_as_that(
    workers: list[NetworkEnvironment], store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, block: object) -> int:
        raise OSError(ENOSPC, "No space left on device")

    answers = Answers()
    subtasks = deploy(sums(), workers, store, answers)
    async with running(subtasks) as tasks:
        object.__setattr__(store.config, "inline_bytes_max", 0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            trigger(subtasks, BARRIER)
            await answers.until(declines=4)
        assert collected(await asyncio.gather(*tasks)) == EXPECTED
    assert {decline[2] for decline in answers.declines} == {CheckpointFailureReason.STORAGE_FULL}


async def test_the_coordinator_may_give_a_checkpoint_up_at_any_time(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O1: before it, while it is aligned and written, after it, and more than once."""
    answers = Answers()
    subtasks = deploy(sums(), workers, store, answers)
    async with running(subtasks) as tasks:
        for checkpoint_id in (1, 2, 3):
            trigger(subtasks, CheckpointBarrier(checkpoint_id, 1_000))
            for subtask in subtasks.values():
                subtask.abort_checkpoint(checkpoint_id)
                subtask.abort_checkpoint(checkpoint_id)
        trigger(subtasks, CheckpointBarrier(4, 1_000))
        assert collected(await asyncio.gather(*tasks)) == EXPECTED
    assert {task.result().checkpoint_taken for task in tasks} == {4}


@pytest.fixture
def open_snapshots(monkeypatch: pytest.MonkeyPatch) -> set[OperatorSnapshot]:
    """The snapshots that were captured and not closed."""
    is_open: set[OperatorSnapshot] = set()
    snapshot, close = OperatorChain.snapshot, OperatorSnapshot.close

    def noted(chain: OperatorChain, checkpoint_id: int, at_ms: int) -> list[OperatorSnapshot]:
        taken = snapshot(chain, checkpoint_id, at_ms)
        is_open.update(taken)
        return taken

    def closed(one: OperatorSnapshot) -> None:
        is_open.discard(one)
        close(one)

    monkeypatch.setattr(OperatorChain, "snapshot", noted)
    monkeypatch.setattr(OperatorSnapshot, "close", closed)
    return is_open


@pytest.mark.parametrize("how", ["the coordinator", "the end of the subtask"])
async def test_an_unwritten_capture_is_closed(
    workers: list[NetworkEnvironment],
    store: CheckpointStore,
    open_snapshots: set[OperatorSnapshot],
    how: str,
) -> None:
    """O1: the abort comes between capturing and writing, before the loop has turned once."""
    answers = Answers()
    subtasks = deploy(sums(), workers, store, answers)
    async with running(subtasks):
        source = next(one for name, one in subtasks.items() if name.startswith("Source"))
        checkpoints = source._checkpoints
        assert checkpoints is not None

        async def between_two_batches() -> None:
            assert checkpoints is not None
            assert checkpoints.trigger_checkpoint(BARRIER) is None
            assert open_snapshots, "nothing is written yet"
            if how == "the coordinator":
                checkpoints.abort_checkpoint(1)
                await checkpoints.finish()
            else:
                await checkpoints.close()

        await source._mailbox.submit(between_two_batches)
        await source._thread.work(lambda: None)
        assert not open_snapshots
    assert not answers.reports


async def test_a_checkpoint_that_is_declined_and_given_up_at_once_is_declined(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """The abort cancels the write, and not the answer."""
    answers = Answers()
    subtasks = deploy(sums(), workers, store, answers)
    async with running(subtasks):
        (sink, *_) = [one for name, one in subtasks.items() if not name.startswith("Source")]
        assert sink._checkpoints is not None
        sink._checkpoints.abort(1, AbortReason.NOT_READY)
        sink._checkpoints.abort_checkpoint(1)
        await answers.until(declines=1)
    assert [decline[2] for decline in answers.declines] == [CheckpointFailureReason.NOT_READY]


async def test_a_report_that_cannot_be_made_declines_the_checkpoint(
    workers: list[NetworkEnvironment], store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All state is written by then; the coordinator must not wait until its time-out."""

    def fails(operators: object) -> bytes:
        raise ValueError("too large")

    monkeypatch.setattr(subtask_checkpoints, "encode_handle", fails)
    answers = Answers()
    subtasks = deploy(sums(), workers, store, answers)
    async with running(subtasks):
        trigger(subtasks, BARRIER)
        await answers.until(declines=4)
    assert {decline[2:] for decline in answers.declines} == {
        (CheckpointFailureReason.ASYNC_FAILURE, "ValueError: too large")
    }


class Slow(SinkFunction):
    """A sink that takes each record only when the test allows it."""

    gate: ClassVar[asyncio.Semaphore]

    async def invoke(self, value: Any) -> None:
        """Wait for the test's permission."""
        await self.gate.acquire()


class Held(MapFunction):
    """A function that passes a record on when the test allows it."""

    gate: ClassVar[asyncio.Semaphore]

    async def map(self, value: Any) -> Any:
        await self.gate.acquire()
        return value


class Closing(MapFunction):
    """A function that sets an event when it is closed, and may leave a note in its metrics."""

    closed: ClassVar[asyncio.Event]
    leaves_a_note: ClassVar[bool]

    def open(self, context: RuntimeContext) -> None:
        if self.leaves_a_note:
            context.metrics["note"] = 1

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        self.closed.set()


HELD = 300


def held(turns: int, *, leaves_a_note: bool = False) -> JobGraph:
    """Return a job whose source ends when ``turns`` records were processed downstream, or
    before."""
    Held.gate, Closing.closed = asyncio.Semaphore(turns), asyncio.Event()
    Closing.leaves_a_note = leaves_a_note
    environment = StreamExecutionEnvironment().set_max_parallelism(8)
    environment.enable_checkpointing(1000)
    environment.get_checkpoint_config().enable_unaligned_checkpoints()
    numbers = environment.from_source(GeneratorSource(lambda number: number, HELD)).map(Closing())
    numbers.rebalance().map(Held()).sink_to(CollectSink()).name("sums")
    return environment.job_graph("held")


@pytest.mark.parametrize("how", OPTIONS)
async def test_a_subtask_that_has_emitted_its_last_record_counts_as_finished(
    workers: list[NetworkEnvironment], store: CheckpointStore, how: str
) -> None:
    """O2: this holds while the downstream subtasks still process its records.

    Late or aborted checkpoints do no harm, and a job restored from the checkpoint has each record
    once.
    """
    graph, answers = held(10), Answers()
    subtasks = deploy(graph, workers, store, answers)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await Closing.closed.wait()
        trigger(subtasks, CheckpointBarrier(1, wall_clock_ms(), OPTIONS[how]))
        while len(answers.reports) < 2:
            Held.gate.release()
            await asyncio.sleep(0)
        finished = {place: report.finished for place, report in answers.reports.items()}
        assert finished == {(0, 0): True, (1, 0): False}
        metadata = answers.metadata(graph)
        trigger(subtasks, CheckpointBarrier(1, wall_clock_ms(), OPTIONS[how]))
        trigger(subtasks, CheckpointBarrier(2, wall_clock_ms(), OPTIONS[how]))
        for subtask in subtasks.values():
            subtask.abort_checkpoint(2)
        for _ in range(HELD):
            Held.gate.release()
        _, written = await asyncio.gather(*tasks)
        assert written.collected["sums"] == list(range(HELD))
    assert not answers.declines
    restarted = deploy(
        held(HELD),
        workers,
        store,
        Answers(),
        attempt=1,
        restored=RestoredState(store, metadata),
        some_finished={(0, 0)},
    )
    async with asyncio.timeout(60), running(restarted) as tasks:
        read, written = await asyncio.gather(*tasks)
    assert (read.records_in, written.collected["sums"]) == (0, list(range(HELD)))


async def test_a_subtask_with_an_undelivered_result_is_not_finished(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O2: a job restored from the checkpoint would not have the result."""
    answers = Answers()
    subtasks = deploy(held(10, leaves_a_note=True), workers, store, answers)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await Closing.closed.wait()
        trigger(subtasks, BARRIER)
        for _ in range(HELD):
            Held.gate.release()
        read, _ = await asyncio.gather(*tasks)
    assert (read.checkpoint_taken, read.metrics) == (-1, {"Map": {"note": 1}})
    assert not answers.reports


async def test_an_end_whose_barrier_cannot_be_written_declines_the_checkpoint(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O2: the end waits for the downstream subtasks, behind the maximum of barriers."""
    answers = Answers()
    subtasks = deploy(held(10), workers, store, answers)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await Closing.closed.wait()
        numbers = count(1)
        while not answers.declines:
            trigger(subtasks, CheckpointBarrier(next(numbers), 1_000))
            await asyncio.sleep(0)
        for _ in range(HELD):
            Held.gate.release()
        _, written = await asyncio.gather(*tasks)
    assert written.collected["sums"] == list(range(HELD))
    assert answers.declines[0][1:3] == ((0, 0), CheckpointFailureReason.DECLINED)


def backpressured_ms(subtasks: dict[str, Subtask]) -> float:
    """Return for how long subtasks have waited for buffers so far."""
    return sum(subtask.io_metrics().backpressured_time_ms for subtask in subtasks.values())


WAITING = 5_000


def waiting() -> JobGraph:
    """Return a job with more records for a slow sink than fit into all queues."""
    environment = StreamExecutionEnvironment().set_max_parallelism(8)
    environment.enable_checkpointing(1000)
    environment.get_checkpoint_config().enable_unaligned_checkpoints()
    numbers = environment.from_source(GeneratorSource(lambda number: (number, "x" * 90), WAITING))
    numbers.rebalance().sink_to(Slow()).name("sink")
    return environment.job_graph("slow")


async def until_full(subtasks: dict[str, Subtask]) -> None:
    """Wait until the slow sink has had all records that may pass its gate and all queues are
    full."""
    while not Slow.gate.locked():
        await asyncio.sleep(0)
    waited_ms = backpressured_ms(subtasks)
    while backpressured_ms(subtasks) <= waited_ms:
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", ["unaligned", "alternating"])
async def test_a_checkpoint_waits_for_no_memory_and_loses_nothing_in_flight(
    workers: list[NetworkEnvironment], store: CheckpointStore, how: str
) -> None:
    """All queues are full, and the sink takes one more record per turn of the loop.

    The records not processed, not read and not sent at the checkpoint are restored in order.
    """
    Slow.gate, answers = asyncio.Semaphore(100), Answers()
    subtasks = deploy(waiting(), workers, store, answers)
    async with running(subtasks):
        await until_full(subtasks)
        trigger(subtasks, CheckpointBarrier(1, wall_clock_ms(), OPTIONS[how]))
        while len(answers.reports) < 2:
            Slow.gate.release()
            await asyncio.sleep(0)
    assert not answers.declines
    assert sum(report.persisted_bytes for report in answers.reports.values()) > 0
    metadata = answers.metadata(waiting())
    restored = RestoredState(store, metadata)
    channels = restored.channels(JobGraph.from_bytes(waiting().to_bytes()))
    unpacker = RecordUnpacker.of(workers[0].config)
    found = [
        number
        async for in_flight in channels.records_of(1, 0, unpacker)
        for number, _ in in_flight.records
    ]
    assert found == [*range(found[0], found[0] + len(found))]
    Slow.gate = asyncio.Semaphore(WAITING)
    restarted = deploy(waiting(), workers, store, Answers(), attempt=1, restored=restored)
    async with running(restarted) as tasks:
        read, _ = await asyncio.gather(*tasks)
    assert read.records_in == WAITING - (found[-1] + 1), "the source goes on behind them"


class UntilOver(Source):
    """A source that makes all keys due, and is silent then until it may end."""

    parallelism = 1
    replayable = True
    over: ClassVar[asyncio.Event]

    def batches(self, context: RuntimeContext) -> AsyncIterator[Any]:
        return self.batches_after(context, 0)

    async def batches_after(self, context: RuntimeContext, position: int) -> AsyncIterator[Any]:
        if position == 0:
            yield [*range(TIMERS), 2 * TIMERS]
        await self.over.wait()


class Due(KeyedProcessFunction, CheckpointedFunction):
    """A function with a timer for each key, which emits a record when it fires."""

    fired: ClassVar[list[int]]
    captured_behind: ClassVar[list[int]]
    on_half: ClassVar[Callable[[], object]]

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Do nothing: the timers are all its state."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.captured_behind.append(len(self.fired))

    def process_element(self, value: int, ctx: ProcessContext) -> Iterable[int]:
        ctx.timer_service().register_event_time_timer(TIMERS)
        return ()

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[int]:
        self.fired.append(ctx.get_current_key())
        if len(self.fired) == TIMERS // 2:
            type(self).on_half()
        yield ctx.get_current_key()


TIMERS = 1_000


async def test_a_checkpoint_is_taken_between_timers_of_one_watermark(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """K23: an unaligned checkpoint need not wait for all timers, of which each key may have one.

    The timers that had not fired fire after the restore, and no others fire again.
    """
    UntilOver.over = asyncio.Event()
    Due.fired, Due.captured_behind = [], []

    def job() -> JobGraph:
        environment = StreamExecutionEnvironment().set_parallelism(1)
        environment.enable_checkpointing(1000)
        environment.get_config().set_auto_watermark_interval(1)
        environment.get_checkpoint_config().enable_unaligned_checkpoints()
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        by_time = strategy.with_timestamp_assigner(lambda value, stamp: value)
        numbers = environment.from_source(UntilOver()).assign_timestamps_and_watermarks(by_time)
        due = numbers.key_by(lambda value: value).process(Due())
        due.sink_to(CollectSink()).name("sums")
        return environment.job_graph("due")

    answers = Answers()
    subtasks = deploy(job(), workers, store, answers)
    loop = asyncio.get_running_loop()

    async def begin() -> None:
        trigger(subtasks, CheckpointBarrier(1, 1_000, OPTIONS["unaligned"]))

    # Called in the subtask's thread, which fires the other timers only after the trigger.
    Due.on_half = lambda: asyncio.run_coroutine_threadsafe(begin(), loop).result()
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await answers.until(reports=2)
        UntilOver.over.set()
        everything = collected(await asyncio.gather(*tasks))
    assert everything == [*range(TIMERS), 2 * TIMERS]
    (behind,) = Due.captured_behind
    assert TIMERS // 2 <= behind < TIMERS
    before, Due.fired = Due.fired[:behind], []
    restored = RestoredState(store, answers.metadata(job()))
    restarted = deploy(job(), workers, store, Answers(), attempt=1, restored=restored)
    async with asyncio.timeout(60), running(restarted) as tasks:
        assert collected(await asyncio.gather(*tasks)) == everything
    assert sorted(before + Due.fired) == everything


async def test_more_in_flight_than_may_be_declines_the_checkpoint_and_not_the_job(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """All queues are full, so data is in flight for any order of reading."""
    answers = Answers()
    object.__setattr__(store.config, "channel_state_bytes_max", 0)
    Slow.gate = asyncio.Semaphore(100)
    subtasks = deploy(waiting(), workers, store, answers)
    async with running(subtasks) as tasks:
        await until_full(subtasks)
        trigger(subtasks, CheckpointBarrier(1, 1_000, OPTIONS["unaligned"]))
        while not answers.declines:
            Slow.gate.release()
            await asyncio.sleep(0)
        for _ in range(WAITING):
            Slow.gate.release()
        *_, sink = await asyncio.gather(*tasks)
    assert sink.records_in == WAITING
    reasons = {reason for *_, reason, _ in answers.declines}
    assert CheckpointFailureReason.ASYNC_FAILURE in reasons
    assert any("takes more than 0 bytes" in why for *_, why in answers.declines)


@pytest.mark.parametrize("how", OPTIONS)
async def test_checkpoints_that_are_given_up_leave_nothing_behind(
    workers: list[NetworkEnvironment], store: CheckpointStore, how: str
) -> None:
    """The first checkpoint is aborted, and the second is subsumed by the third."""
    answers = Answers()
    subtasks = deploy(sums(), workers, store, answers)
    async with running(subtasks) as tasks:
        for checkpoint_id in (1, 2, 3):
            now_ms = wall_clock_ms()
            trigger(subtasks, CheckpointBarrier(checkpoint_id, now_ms, OPTIONS[how]))
            await asyncio.sleep(0)
            if checkpoint_id == 1:
                for subtask in subtasks.values():
                    subtask.abort_checkpoint(checkpoint_id)
        assert collected(await asyncio.gather(*tasks)) == EXPECTED
    assert {task.result().checkpoint_taken for task in tasks} == {3}
    # A channel cannot take part in the second if its producer has begun the third: NOT_READY.
    assert {checkpoint_id for checkpoint_id, *_ in answers.declines} <= {1, 2}
    assert not any(reason.is_failure for *_, reason, _ in answers.declines)


class Listening(MapFunction, CheckpointListener):
    """A function that records the complete checkpoints."""

    heard: ClassVar[list[int]] = []

    def map(self, value: Any) -> Any:
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(checkpoint_id)
        if checkpoint_id == 13:
            raise ValueError("unlucky")


async def test_functions_hear_which_checkpoints_are_complete(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """They are notified between two batches; an error of the call fails the subtask."""
    Listening.heard.clear()
    subtasks = deploy(sums(Listening()), workers, store, Answers())
    async with running(subtasks) as tasks:
        for checkpoint_id in (7, 13):
            for subtask in subtasks.values():
                subtask.complete_checkpoint(checkpoint_id)
        failures = await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(Listening.heard) == [7, 7, 13, 13]
    assert any("in notify_checkpoint_complete(): ValueError" in str(one) for one in failures)


class Summing(FlatMapFunction):
    """A function that passes numbers on, and emits their sum at the end."""

    def open(self, context: RuntimeContext) -> None:
        self._sum = 0

    def flat_map(self, value: int) -> list[int]:
        self._sum += value
        return [value]

    def finish(self) -> list[str]:
        return [f"sum {self._sum}"]


class Ledger(CheckpointedSink):
    """A sink that keeps its published records."""

    published: ClassVar[list[Any]]
    is_full: ClassVar[bool]

    def __init__(self) -> None:
        self._written: list[Any] = []

    def write(self, records: list[Any]) -> None:
        self._written += records

    def roll(self) -> list[Any]:
        written, self._written = self._written, []
        return [str(written)] if written else []

    def persist(self, committables: list[Any]) -> None:
        if self.is_full:
            raise OSError("disk full")

    def publish(self, checkpoint_id: int, committables: list[Any]) -> None:
        self.published.extend(committables)

    def discard(self, kept: Collection[Any], is_own: Callable[[int], bool]) -> None:
        """Do nothing: no files are left anywhere."""

    def prepare_commit(self) -> None:
        raise AssertionError("a job with checkpoints does not ask")

    def create_committer(self, context: CommitContext) -> Committer:
        raise AssertionError("a worker asks, in the end")


def summed(parallelism: int = 1) -> JobGraph:
    """Return a job that writes three numbers and their sum into a ledger."""
    Ledger.published, Ledger.is_full = [], False
    environment = StreamExecutionEnvironment().set_max_parallelism(8)
    environment.enable_checkpointing(1000)
    environment.get_checkpoint_config().enable_unaligned_checkpoints()
    numbers = environment.from_source(GeneratorSource(lambda number: number, 3))
    summing = numbers.rebalance().flat_map(Summing()).set_parallelism(parallelism)
    summing.sink_to(Ledger()).set_parallelism(parallelism)
    return environment.job_graph("summed")


WRITTEN = str([0, 1, 2, "sum 3"])


def trigger_all(subtasks: dict[str, Subtask], barrier: CheckpointBarrier) -> None:
    for subtask in subtasks.values():
        subtask.trigger_checkpoint(barrier)


@pytest.mark.parametrize("how", OPTIONS)
async def test_remaining_output_is_committed_with_a_last_checkpoint(
    workers: list[NetworkEnvironment], store: CheckpointStore, how: str
) -> None:
    """O2: an aborted checkpoint does not count.

    Another job that continues from the checkpoint commits the same records once, without ending the
    functions again, at any parallelism.
    """
    graph, answers = summed(), Answers()
    subtasks = deploy(graph, workers, store, answers)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await answers.until(awaiting=1)
        assert answers.awaiting == {(1, 0): -1}
        for subtask in subtasks.values():
            subtask.abort_checkpoint(1)
        trigger_all(subtasks, CheckpointBarrier(2, wall_clock_ms(), OPTIONS[how]))
        await answers.until(reports=1)
        assert answers.reports[1, 0].finished
        assert Ledger.published == []
        for subtask in subtasks.values():
            subtask.complete_checkpoint(2)
        _, written = await asyncio.gather(*tasks)
    assert (written.committables, written.checkpoint_taken) == ({}, 2)
    assert Ledger.published == [WRITTEN]
    metadata = answers.metadata(graph)
    for parallelism in (1, 2):
        again = Answers()
        restarted = deploy(
            summed(parallelism),
            workers,
            store,
            again,
            attempt=parallelism,
            restored=RestoredState(store, metadata),
            some_finished={(0, 0)},
        )
        async with asyncio.timeout(60), running(restarted) as tasks:
            results = await asyncio.gather(*tasks)
        assert Ledger.published == [WRITTEN]
        assert again.awaiting == {}
        assert sum(result.records_in for result in results) == 0


async def test_output_that_cannot_be_made_durable_at_the_end_fails_the_job(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O2: the records must be processed again."""
    answers = Answers()
    subtasks = deploy(summed(), workers, store, answers)
    Ledger.is_full = True
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await answers.until(awaiting=1)
        trigger_all(subtasks, BARRIER)
        await answers.until(declines=1)
        for subtask in subtasks.values():
            subtask.abort_checkpoint(1)
        with pytest.raises(JobFailedError, match="for a checkpoint: OSError: disk full"):
            await tasks[1]
    assert Ledger.published == []


@pytest.mark.parametrize(
    "kind", [CheckpointKind.SAVEPOINT_SUSPEND, CheckpointKind.SAVEPOINT_TERMINATE]
)
async def test_a_job_may_end_with_a_savepoint_while_it_awaits_a_last_checkpoint(
    workers: list[NetworkEnvironment], store: CheckpointStore, kind: CheckpointKind
) -> None:
    """O2: the savepoint is the last checkpoint, and ends no function a second time."""
    answers = Answers()
    subtasks = deploy(summed(), workers, store, answers)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await answers.until(awaiting=1)
        trigger_all(subtasks, CheckpointBarrier(1, wall_clock_ms(), CheckpointOptions(kind)))
        await answers.until(reports=1)
        for subtask in subtasks.values():
            subtask.complete_checkpoint(1)
        await asyncio.gather(*tasks)
    assert answers.reports[1, 0].finished
    assert Ledger.published == [WRITTEN]


async def test_output_of_a_drained_job_is_emitted_once(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O2, N6: a job that continues from its savepoint has no records left to emit."""
    graph, answers = held(10), Answers()
    subtasks = deploy(graph, workers, store, answers)
    drained = CheckpointOptions(CheckpointKind.SAVEPOINT_TERMINATE)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        trigger(subtasks, CheckpointBarrier(1, wall_clock_ms(), drained))
        for _ in range(HELD):
            Held.gate.release()
        await answers.until(reports=2)
        for subtask in subtasks.values():
            subtask.complete_checkpoint(1)
        await asyncio.gather(*tasks)
    assert [report.finished for report in answers.reports.values()] == [True, True]
    restored = RestoredState(store, answers.metadata(graph))
    restarted = deploy(held(HELD), workers, store, Answers(), attempt=1, restored=restored)
    async with asyncio.timeout(60), running(restarted) as tasks:
        read, written = await asyncio.gather(*tasks)
    assert (read.records_in, written.records_in) == (0, 0)


class Awaiting(Listening):
    """A function that records whether its last record has passed."""

    has_finished: ClassVar[bool]

    def finish(self) -> None:
        type(self).has_finished = True


def listening(*, checkpoints: bool) -> JobGraph:
    """Return a job of a source with a function that is notified of checkpoints, and a sink."""
    Listening.heard.clear()
    Awaiting.has_finished, Held.gate = False, asyncio.Semaphore(HELD)
    environment = StreamExecutionEnvironment().set_max_parallelism(8)
    if checkpoints:
        environment.enable_checkpointing(1000)
    numbers = environment.from_source(GeneratorSource(lambda number: number, 3)).map(Awaiting())
    numbers.rebalance().map(Held()).sink_to(CollectSink()).name("sums")
    return environment.job_graph("listening")


async def test_a_function_hears_of_a_checkpoint_behind_its_last_record(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O2: the downstream subtasks end meanwhile, and no output of the function needs a barrier."""
    answers = Answers()
    subtasks = deploy(listening(checkpoints=True), workers, store, answers)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await answers.until(awaiting=1)
        assert Awaiting.has_finished
        await tasks[1]
        trigger(subtasks, BARRIER)
        await answers.until(reports=1)
        assert not tasks[0].done()
        for subtask in subtasks.values():
            subtask.complete_checkpoint(1)
        await tasks[0]
    assert Listening.heard == [1]


async def test_without_checkpoints_no_subtask_awaits_one(
    workers: list[NetworkEnvironment], store: CheckpointStore
) -> None:
    """O2: such a job has only savepoints."""
    answers = Answers()
    subtasks = deploy(listening(checkpoints=False), workers, store, answers)
    async with asyncio.timeout(60), running(subtasks) as tasks:
        await asyncio.gather(*tasks)
    assert (answers.awaiting, Listening.heard) == ({}, [])


class AtTheEnd(TwoPhaseSink):
    """A sink that commits once, at the end of the job."""

    def write(self, records: list[Any]) -> None:
        """Do nothing: no record comes here."""

    def prepare_commit(self) -> None:
        """Do nothing: no record comes here."""

    def create_committer(self, context: CommitContext) -> Committer:
        raise AssertionError("nothing is committed")


class OnceOnly(GeneratorSource):
    """A source that cannot be read again."""

    replayable = False


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda environment: environment.from_source(OnceOnly(str, 3)).print(),
            "cannot be read again",
        ),
        (
            lambda environment: environment.from_collection([1]).sink_to(AtTheEnd()),
            "commits once, at the end of the job",
        ),
    ],
)
async def test_sources_and_sinks_that_cannot_recover_are_refused(
    workers: list[NetworkEnvironment],
    store: CheckpointStore,
    build: Callable[[StreamExecutionEnvironment], object],
    message: str,
) -> None:
    environment = StreamExecutionEnvironment()
    environment.enable_checkpointing(1000)
    build(environment)
    subtasks = deploy(environment.job_graph("refused"), workers, store, Answers())
    for subtask in subtasks.values():
        subtask.open()
    with pytest.raises(ConfigurationError, match=message):
        for subtask in subtasks.values():
            await subtask.run()

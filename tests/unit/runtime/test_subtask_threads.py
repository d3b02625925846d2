"""User code in the threads of subtasks: one thread for all of it, beside the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flinknet.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CheckpointedFunction,
    CollectSink,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    OnTimerContext,
    ProcessContext,
    RuntimeContext,
    Source,
    StreamExecutionEnvironment,
    Time,
    WatermarkStrategy,
)
from flinknet.environment.task_thread import is_in_task_thread
from flinknet.errors import JobFailedError
from flinknet.wire.events import CheckpointBarrier
from tests.unit.runtime.checkpointed import Answers, deploy, store_in, trigger
from tests.unit.runtime.running import deploy as deploy_plainly
from tests.unit.runtime.running import environments, run_job
from tests.unit.runtime.test_subtask_checkpoints import OPTIONS, collected, running

pytestmark = pytest.mark.asyncio


class Bound(KeyedProcessFunction, CheckpointedFunction):
    """A function with an object that only the thread that made it may use."""

    calls: ClassVar[set[str]] = set()
    released: ClassVar[threading.Event]

    def _use(self, call: str) -> None:
        self._connection.execute("select 1")
        assert is_in_task_thread()
        self.calls.add(call)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._connection = sqlite3.connect(":memory:")

    def open(self, runtime_context: RuntimeContext) -> None:
        self._use("open")

    def process_element(self, value: int, ctx: ProcessContext) -> Iterable[int]:
        self._use("process_element")
        ctx.timer_service().register_event_time_timer(value)
        ctx.timer_service().register_processing_time_timer(0)
        return ()

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[int]:
        self._use(f"on_timer by {ctx.time_domain().name}")
        yield ctx.get_current_key()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._use("snapshot_state")

    def finish(self) -> Iterable[int]:
        self._use("finish")
        yield -1

    def close(self) -> None:
        self._use("close")
        self._connection.close()


class UntilReleased(Source):
    """A source that blocks until the test lets it end."""

    replayable = True

    def batches(self, context: RuntimeContext) -> Iterator[list[int]]:
        yield list(range(100))
        while not Bound.released.wait(0.001):
            yield []


@pytest.mark.parametrize("kind", ["aligned", "unaligned"])
async def test_all_code_of_a_function_runs_in_one_thread(tmp_path: Path, kind: str) -> None:
    """This includes timers of both kinds, snapshots, and the end."""
    Bound.calls, Bound.released = set(), threading.Event()
    environment = StreamExecutionEnvironment().set_parallelism(1)
    environment.enable_checkpointing(1000)
    if kind == "unaligned":
        environment.get_checkpoint_config().enable_unaligned_checkpoints()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, stamp: value
    )
    numbers = environment.from_source(UntilReleased()).assign_timestamps_and_watermarks(strategy)
    numbers.key_by(lambda value: value % 7).process(Bound()).sink_to(CollectSink()).name("sums")
    answers = Answers()
    async with environments(1) as workers, asyncio.timeout(60):
        subtasks = deploy(environment.job_graph("bound"), workers, store_in(tmp_path), answers)
        async with running(subtasks) as tasks:
            trigger(subtasks, CheckpointBarrier(1, 1_000, OPTIONS[kind]))
            await answers.until(reports=len(subtasks))
            Bound.released.set()
            everything = collected(await asyncio.gather(*tasks))
    assert everything.count(-1) == 1
    assert Bound.calls == {
        "open",
        "process_element",
        "on_timer by EVENT_TIME",
        "on_timer by PROCESSING_TIME",
        "snapshot_state",
        "finish",
        "close",
    }


class WaitsForNeighbour(MapFunction):
    """A function that blocks at a record until the other pipeline of the worker has ended."""

    neighbour_ended: ClassVar[threading.Event]

    def map(self, value: int) -> int:
        assert value != 5 or self.neighbour_ended.wait(30), "the neighbour did not get on"
        return value


class Ends(MapFunction):
    """A function that sets an event when it is closed."""

    def map(self, value: int) -> int:
        return value

    def close(self) -> None:
        WaitsForNeighbour.neighbour_ended.set()


async def test_a_function_that_blocks_holds_up_no_neighbour() -> None:
    """The pipelines share the exchanges of one worker, and other functions may be in front of the
    blocking one."""
    WaitsForNeighbour.neighbour_ended = threading.Event()
    environment = StreamExecutionEnvironment().set_parallelism(2)
    slow = environment.from_collection(list(range(10_000))).name("slow source").rebalance()
    slow.map(WaitsForNeighbour()).name("blocks").rebalance().sink_to(CollectSink()).name("slow")
    quick = environment.from_collection(list(range(10_000))).rebalance()
    quick.map(Ends()).name("ends").rebalance().sink_to(CollectSink()).name("quick")
    outcome = await run_job(environment)
    assert sorted(outcome.collected["slow"]) == sorted(outcome.collected["quick"])
    assert sorted(outcome.collected["slow"]) == list(range(10_000))


class Doubled(AsyncFunction):
    """A function that needs the event loop."""

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0)
        return [2 * value]


async def generated(value: int) -> AsyncIterator[int]:
    await asyncio.sleep(0)
    yield value
    yield -value


class OpensLater(MapFunction):
    """A function that opens and closes on the event loop, and is called in the thread."""

    async def open(self, runtime_context: RuntimeContext) -> None:
        await asyncio.sleep(0)
        assert not is_in_task_thread()

    def map(self, value: int) -> int:
        assert is_in_task_thread()
        return value

    async def close(self) -> None:
        await asyncio.sleep(0)
        assert not is_in_task_thread()


async def test_coroutine_functions_have_the_event_loop() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(1)
    numbers = environment.from_collection(list(range(10)))
    doubled = AsyncDataStream.ordered_wait(numbers, Doubled(), Time.seconds(60))
    doubled.flat_map(generated).rebalance().map(OpensLater()).sink_to(CollectSink()).name("out")
    outcome = await run_job(environment)
    expected = [one for value in range(10) for one in (2 * value, -2 * value)]
    assert outcome.collected["out"] == expected


class Mutates(MapFunction):
    """A function that emits its own object again and again."""

    def __init__(self) -> None:
        self._row: dict[str, Any] = {"n": 0}

    def map(self, value: int) -> dict[str, Any]:
        self._row["n"] = value
        return self._row


async def test_results_that_are_gathered_are_as_they_were_given_away() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(1)
    numbers = environment.from_collection(list(range(5_000)))
    numbers.map(Mutates()).rebalance().sink_to(CollectSink()).name("out")
    outcome = await run_job(environment)
    assert [row["n"] for row in outcome.collected["out"]] == list(range(5_000))


class Choices:
    """User code that chooses where records go; it records the thread of each call."""

    asked: ClassVar[set[tuple[str, bool]]] = set()

    def key(self, value: int) -> int:
        self.asked.add(("key", is_in_task_thread()))
        return value

    def channel(self, key: int, channels: int) -> int:
        self.asked.add(("channel", is_in_task_thread()))
        return key % channels


@pytest.mark.parametrize("threads", [True, False])
async def test_where_records_go_is_chosen_where_the_function_runs(threads: bool) -> None:
    """The choice is user code, too, and may take as long."""
    Choices.asked.clear()
    environment = StreamExecutionEnvironment().set_parallelism(2)
    if not threads:
        environment.get_config().disable_task_threads()
    numbers = environment.from_collection(list(range(20)))
    choices = Choices()
    numbers = numbers.partition_custom(choices.channel, choices.key).map(lambda value: value)
    numbers.key_by(choices.key).reduce(max).sink_to(CollectSink()).name("out")
    outcome = await run_job(environment)
    assert sorted(outcome.collected["out"]) == list(range(20))
    assert Choices.asked == {("key", threads), ("channel", threads)}


async def test_a_job_may_ask_for_the_event_loop() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(1)
    environment.get_config().disable_task_threads()
    numbers = environment.from_collection(list(range(10)))
    where = numbers.map(lambda value: (value, is_in_task_thread()))
    where.rebalance().sink_to(CollectSink()).name("out")
    outcome = await run_job(environment)
    assert outcome.collected["out"] == [(value, False) for value in range(10)]


class Changes(MapFunction):
    """A function that changes its records."""

    def map(self, value: dict[str, int]) -> dict[str, int]:
        value["n"] += 1_000
        return value


async def test_a_chained_function_changes_no_record_that_is_still_to_be_written() -> None:
    """Writers come first, but serialize the records only when the whole step is done."""
    environment = StreamExecutionEnvironment().set_parallelism(1)
    rows = environment.from_collection([{"n": number} for number in range(100)])
    rows = rows.map(dict).name("rows")
    rows.map(Changes()).name("changes").rebalance().sink_to(CollectSink()).name("changed")
    rows.rebalance().sink_to(CollectSink()).name("out")
    outcome = await run_job(environment)
    assert [row["n"] for row in outcome.collected["out"]] == list(range(100))
    assert [row["n"] for row in outcome.collected["changed"]] == list(range(1_000, 1_100))


class SlowToClose(MapFunction):
    """A function that fails, and blocks in its close until the test releases it."""

    closes: ClassVar[threading.Event]
    may_end: ClassVar[threading.Event]
    has_closed = False

    def map(self, value: Any) -> Any:
        raise ValueError("the first cause")

    def close(self) -> None:
        self.closes.set()
        SlowToClose.has_closed = self.may_end.wait(30)


async def test_a_cancellation_while_a_failed_subtask_closes_hides_no_cause() -> None:
    """Its consumers get the error at once, and then the whole job is cancelled."""
    SlowToClose.closes, SlowToClose.may_end = threading.Event(), threading.Event()
    environment = StreamExecutionEnvironment()
    environment.from_collection([1]).map(SlowToClose()).sink_to(CollectSink())
    async with environments(1) as workers:
        (subtask,) = deploy_plainly(environment.job_graph("test"), workers).values()
        subtask.open()
        task = asyncio.create_task(subtask.run())
        await asyncio.to_thread(SlowToClose.closes.wait, 30)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done(), "it waits for what is under way"
        SlowToClose.may_end.set()
        with pytest.raises(JobFailedError, match="ValueError: the first cause"):
            await task
    assert SlowToClose.has_closed


class Blocking(MapFunction):
    """A function that blocks in its first record until the test releases it."""

    blocks: ClassVar[threading.Event]
    goes_on: ClassVar[threading.Event]

    def map(self, value: int) -> int:
        self.blocks.set()
        assert self.goes_on.wait(60)
        return value


async def test_a_consumer_that_blocks_holds_back_its_own_producer_and_no_other() -> None:
    """Two pipelines run in one worker: one ends while a function of the other blocks in a
    record."""
    Blocking.blocks, Blocking.goes_on = threading.Event(), threading.Event()
    environment = StreamExecutionEnvironment().set_parallelism(1)
    for name, function in (("held", Blocking()), ("other", lambda value: value)):
        numbers = environment.from_collection(list(range(200_000))).name(name)
        numbers.rebalance().map(function).sink_to(CollectSink()).name(f"out of {name}")
    async with environments(1) as workers:
        subtasks = deploy_plainly(environment.job_graph("test"), workers)
        for subtask in subtasks.values():
            subtask.open()
        tasks = {name: asyncio.create_task(one.run()) for name, one in subtasks.items()}
        await asyncio.to_thread(Blocking.blocks.wait, 30)
        other = next(name for name in tasks if name.endswith("out of other (1/1)"))
        result = await tasks[other]
        assert result.collected["out of other"] == list(range(200_000))
        source = subtasks["Source: held (1/1)"]
        while not source.statistics().times.is_backpressured:
            await asyncio.sleep(0)
        assert source.io_metrics().records_out < 200_000
        Blocking.goes_on.set()
        await asyncio.gather(*tasks.values())

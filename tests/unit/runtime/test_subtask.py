"""Subtasks: whole jobs over real network environments, from the sources to the sinks."""

from __future__ import annotations

import asyncio
import re
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from flinknet.config import NetworkConfig
from flinknet.datastream import (
    AggregateFunction,
    CollectSink,
    GeneratorSource,
    KeyedProcessFunction,
    MapFunction,
    OnTimerContext,
    ParquetSink,
    ProcessContext,
    ProcessFunction,
    RuntimeContext,
    SinkFunction,
    Source,
    StreamExecutionEnvironment,
)
from flinknet.datastream.streams import DataStream
from flinknet.errors import (
    ClosedResourceError,
    InsufficientNetworkBuffersError,
    JobFailedError,
    LocalProtocolError,
    ProducerFailedError,
    SerializationError,
)
from flinknet.runtime.execution_state import ExecutionState
from flinknet.runtime.key_group_sample import LARGE_BATCH_RECORDS, LARGE_BATCHES_EACH
from tests.columns import needs_columns
from tests.unit.runtime.running import SMALL, Outcome, deploy, environments, open_all, run, run_job


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator


def program(parallelism: int = 1) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


def numbers(environment: StreamExecutionEnvironment, count: int, subtasks: int = 2) -> DataStream:
    source = GeneratorSource(lambda number: number, count)
    return environment.from_source(source, name="numbers").set_parallelism(subtasks)


def collect(stream: DataStream, name: str = "out") -> None:
    stream.sink_to(CollectSink()).name(name)


def failure(outcome: Outcome, subtask: str) -> BaseException:
    error = outcome.results[subtask]
    assert isinstance(error, BaseException)
    return error


@pytest.mark.parametrize("workers", [1, 2])
async def test_latency_markers_pass_every_operator(workers: int) -> None:
    """V6: markers of a source in its own task, and behind an exchange the markers that came through
    it. No event time is reported where there is none."""
    environment = program(2)
    environment.get_config().set_latency_tracking_interval(1)
    stream = numbers(environment, 30_000).uid("numbers").map(lambda number: number).uid("first")
    collect(stream.rebalance().map(lambda number: number).uid("second"))
    async with environments(workers) as running:
        subtasks = deploy(environment.job_graph("marked"), running)
        outcome = await run(subtasks)
    assert len(outcome.collected["out"]) == 30_000
    told = [one for subtask in subtasks.values() for one in subtask.statistics().latencies]
    assert {one.operator_uid for one in told} >= {"first", "second"}
    assert {(one.source_uid, one.source_subtask_index) for one in told} == {("numbers", -1)}
    assert all(0 <= one.min <= one.max for one in told)
    assert {subtask.statistics().input_watermark for subtask in subtasks.values()} == {None}


async def test_statistics_are_read_while_the_thread_of_the_subtask_counts() -> None:
    """The loop reads each number that the thread writes, at any moment of a step."""
    environment = program().set_max_parallelism(16_384)
    environment.get_config().set_latency_tracking_interval(1)
    stream = numbers(environment, 60_000, 1).map(lambda number: number)
    collect(stream.key_by(lambda number: number).map(lambda number: number))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        async with environments() as running:
            subtasks = deploy(environment.job_graph("counted"), running)
            under_way = asyncio.create_task(run(subtasks))
            while not under_way.done():
                for subtask in subtasks.values():
                    subtask.statistics()
                await asyncio.sleep(0)
            outcome = await under_way
    finally:
        sys.setswitchinterval(interval)
    assert len(outcome.collected["out"]) == 60_000
    groups = [subtask.statistics().key_groups for subtask in subtasks.values()]
    assert any(groups), "key groups were sampled"


async def test_chain_of_functions_in_one_task() -> None:
    environment = program()
    stream = numbers(environment, 5000, 1).map(lambda number: number + 1)
    collect(stream.filter(lambda n: n % 2 == 0).flat_map(lambda n: (n, -n)))

    outcome = await run_job(environment)

    assert outcome.collected["out"] == [s * n for n in range(2, 5001, 2) for s in (1, -1)]


@pytest.mark.parametrize("workers", [1, 2])
async def test_keyed_reduce(workers: int) -> None:
    environment = program(4)
    pairs = numbers(environment, 7000).rebalance().map(lambda number: (number % 7, 1))
    totals = pairs.key_by(itemgetter(0)).reduce(
        lambda a, b: (a[0], a[1] + b[1]), emit="end_of_input"
    )
    collect(totals)

    outcome = await run_job(environment, workers=workers)

    assert sorted(outcome.collected["out"]) == [(key, 1000) for key in range(7)]


def calls(number: int) -> list[tuple[str, ...]]:
    """Return, as the result of some numbers, the callers as a stack sample shows them."""
    if number % (LARGE_BATCH_RECORDS // 2):
        return []
    frames = (frame for frame, _ in traceback.walk_stack(None))
    places = [(frame.f_code.co_filename, frame.f_lineno) for frame in frames]
    return [tuple(f"{file}:{line}" for file, line in places if Path(file).parent.name == "task")]


async def test_whether_a_batch_is_sampled_does_not_show_in_stacks() -> None:
    """A flame graph must show one tower, and not one for each path of a batch."""
    environment = program()
    numbers_by_key = numbers(environment, 40_000, 1).key_by(lambda number: number % 7)
    collect(numbers_by_key.flat_map(calls))
    async with environments(2) as running:
        subtasks = deploy(environment.job_graph("sampled"), running)
        outcome = await run(subtasks)
    sampled = [count for one in subtasks.values() for count in one.statistics().key_groups]
    assert sum(count.records for count in sampled) > LARGE_BATCHES_EACH
    assert len(set(outcome.collected["out"])) == 1


async def test_results_at_the_end_pass_the_whole_chain() -> None:
    """An operator ends after the one before it, so it still processes the results emitted at that
    end."""
    environment = program(2)
    counts = (
        numbers(environment, 1000).key_by(lambda n: n % 2).aggregate(Count(), emit="end_of_input")
    )
    folded = counts.map(lambda record: record[1]).key_by(lambda n: 0)
    collect(folded.reduce(lambda a, b: a + b, emit="end_of_input").map(lambda total: -total))

    outcome = await run_job(environment)

    assert outcome.collected["out"] == [-1000]


async def test_records_that_span_many_buffers() -> None:
    environment = program()
    stream = numbers(environment, 20).map(lambda number: (number, b"x" * 5000))
    collect(stream.rebalance().map(lambda record: (record[0], len(record[1]))))

    outcome = await run_job(environment, workers=2)

    assert sorted(outcome.collected["out"]) == [(number, 5000) for number in range(20)]


async def test_several_streams_behind_one_operator() -> None:
    environment = program(2)
    stream = numbers(environment, 1000)
    collect(stream, "all")
    collect(stream.filter(lambda number: number < 10), "small")
    collect(stream.key_by(lambda number: number % 10).reduce(max, emit="end_of_input"), "largest")

    collected = (await run_job(environment)).collected

    assert sorted(collected["all"]) == list(range(1000))
    assert sorted(collected["small"]) == list(range(10))
    assert sorted(collected["largest"]) == list(range(990, 1000))


@pytest.mark.parametrize("how", ["rebalance", "rescale", "shuffle", "global_", "forward"])
async def test_every_record_arrives_once(how: str) -> None:
    environment = program(3)
    stream = numbers(environment, 2000, 3)
    collect(getattr(stream, how)().map(lambda number: number).start_new_chain())

    outcome = await run_job(environment)

    assert sorted(outcome.collected["out"]) == list(range(2000))
    counts = [
        result.records_in
        for name, result in outcome.results.items()
        if name.startswith("Map") and not isinstance(result, BaseException)
    ]
    assert counts == [2000, 0, 0] if how == "global_" else min(counts) > 0


@pytest.mark.parametrize("how", ["rebalance", "rescale"])
async def test_adaptively_every_record_arrives_once(how: str) -> None:
    environment = program(4)
    stream = getattr(numbers(environment, 2000, 2), how)(adaptive=True)
    collect(stream.map(lambda number: number))

    outcome = await run_job(environment, workers=2)

    assert sorted(outcome.collected["out"]) == list(range(2000))


async def test_broadcast_reaches_every_subtask() -> None:
    environment = program(3)
    collect(numbers(environment, 500).broadcast().map(lambda number: number))

    outcome = await run_job(environment)

    assert sorted(outcome.collected["out"]) == sorted([*range(500)] * 3)


async def test_custom_partitioner_decides() -> None:
    class Index(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value: Any) -> Any:
            return self.index, value

    environment = program(3)
    stream = numbers(environment, 300).partition_custom(lambda key, count: key % count, abs)
    collect(stream.map(Index()))

    outcome = await run_job(environment)

    assert sorted(outcome.collected["out"]) == sorted((n % 3, n) for n in range(300))


class Channel(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield ctx.channel, value


async def test_union_merges_its_inputs() -> None:
    """Channels are counted over all inputs, and each keeps its order."""
    environment = program()
    first = numbers(environment, 1000, 2)
    second = numbers(environment, 1000, 3).map(lambda number: -number - 1).set_parallelism(3)
    collect(first.union(second).process(Channel()))

    outcome = await run_job(environment)

    received: dict[int, list[int]] = {}
    for channel, number in outcome.collected["out"]:
        received.setdefault(channel, []).append(number)
    assert received == {
        0: list(range(0, 1000, 2)),
        1: list(range(1, 1000, 2)),
        2: [-number - 1 for number in range(0, 1000, 3)],
        3: [-number - 1 for number in range(1, 1000, 3)],
        4: [-number - 1 for number in range(2, 1000, 3)],
    }


async def test_coroutine_functions_in_a_chain() -> None:
    async def twice(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async def up_to(number: int) -> AsyncIterator[int]:
        for value in range(number % 3):
            await asyncio.sleep(0)
            yield value

    environment = program()
    collect(numbers(environment, 300, 1).map(twice).rebalance().flat_map(up_to))

    outcome = await run_job(environment)

    assert outcome.collected["out"] == [v for n in range(300) for v in range(2 * n % 3)]


async def test_counters_and_metrics_of_a_subtask() -> None:
    class CountCalls(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.metrics = runtime_context.metrics
            self.metrics["calls"] = 0

        def map(self, value: Any) -> Any:
            self.metrics["calls"] += 1
            return value

    environment = program()
    stream = numbers(environment, 1000, 1).filter(lambda number: number % 4 == 0)
    collect(stream.rebalance().map(CountCalls()).name("calls").disable_chaining())

    results = (await run_job(environment)).results

    source = results["Source: numbers -> Filter (1/1)"]
    counting = results["calls (1/1)"]
    sink = results["Sink: out (1/1)"]
    assert not isinstance(source, BaseException)
    assert not isinstance(counting, BaseException)
    assert not isinstance(sink, BaseException)
    assert (source.records_in, source.records_out, source.bytes_in) == (1000, 250, 0)
    assert (counting.records_in, counting.records_out) == (250, 250)
    assert min(source.bytes_out, counting.bytes_out) >= counting.bytes_in == sink.bytes_in > 250
    assert counting.metrics == {"calls": {"calls": 250}}
    assert (sink.records_in, sink.records_out, sink.metrics) == (250, 0, {})


async def test_a_stopped_consumer_holds_the_source_back() -> None:
    """The source stops when the buffers between them are full, and not before."""

    class Stopped(SinkFunction):
        async def invoke(self, value: Any) -> None:
            await asyncio.get_running_loop().create_future()

    environment = program()
    numbers(environment, 10**9, 1).rebalance().sink_to(Stopped())
    async with environments(2) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        (source,) = (one for name, one in subtasks.items() if name.startswith("Source"))
        await settled(lambda: source.io_metrics().records_out)

        assert 0 < source.io_metrics().records_out < 100_000
        assert source.io_metrics().records_in < 110_000

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0)


def contents(directory: Path) -> list[str]:
    return [file.read_text() for file in directory.iterdir()]


async def settled(value: Any) -> None:
    """Return when the value is not 0 and has not changed for many turns of the loop."""
    unchanged, last = 0, value()
    while unchanged < 500 or not last:
        await asyncio.sleep(0)
        now = value()
        unchanged, last = (unchanged + 1 if now == last else 0), now


# -- mails ---------------------------------------------------------------------------------------


class Latch:
    """A latch for functions; class attributes, as each subtask has its own copy of an object."""

    released: asyncio.Event
    waiting: list[int]


@pytest.fixture
def released() -> asyncio.Event:
    """Release the waiting functions."""
    Latch.released, Latch.waiting = asyncio.Event(), []
    return Latch.released


async def hold(number: int) -> int:
    """Keep a subtask in the middle of a batch."""
    Latch.waiting.append(number)
    await Latch.released.wait()
    return number


class Held(Source):
    """A source of one record, and of another one after its release."""

    parallelism = 1

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[int]]:
        yield [1]
        await Latch.released.wait()
        yield [2]


async def test_a_mail_is_run_while_a_subtask_waits_for_input(released: asyncio.Event) -> None:
    """It waits for the network or for a source.

    The mail sees the state that the first batch has left.
    """
    environment = program()
    collect(environment.from_source(Held(), name="held").rebalance().map(abs))
    async with environments(2) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        sink = subtasks["Map -> Sink: out (1/1)"]
        await until(lambda: sink.io_metrics().records_in == 1)
        await settled(lambda: sink.io_metrics().records_in)
        for subtask in subtasks.values():
            assert (await subtask.submit(subtask.io_metrics)).records_in == 1
            assert subtask.statistics().mailbox[:2] == (0, 1)
        released.set()
        assert (await running).collected["out"] == [1, 2]


class Reminding(KeyedProcessFunction):
    def process_element(self, value: int, ctx: ProcessContext) -> None:
        ctx.timer_service().register_processing_time_timer(0)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> list[Any]:
        return [ctx.get_current_key()]


async def test_a_timer_fires_while_a_subtask_waits_for_input(released: asyncio.Event) -> None:
    environment = program()
    held = environment.from_source(Held(), name="held")
    collect(held.key_by(abs).process(Reminding()).rebalance().map(abs))
    async with environments(2) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        sink = subtasks["Map -> Sink: out (1/1)"]
        await until(lambda: sink.io_metrics().records_in == 1)
        released.set()
        assert (await running).collected["out"][0] == 1


async def test_no_mail_is_run_in_the_middle_of_a_batch(released: asyncio.Event) -> None:
    """S3, by meaning: a mail waits until the whole batch is processed.

    Flink's mails wait for a record.
    """
    environment = program()
    collect(numbers(environment, 10, 1).rebalance().map(hold))
    async with environments(1) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        await until(lambda: bool(Latch.waiting))
        answer = subtasks["Map -> Sink: out (1/1)"].submit(Latch.waiting.copy)
        await settled(lambda: len(Latch.waiting))
        assert not answer.done()
        released.set()
        assert await answer == list(range(10))
        await running


async def test_no_mail_is_run_while_the_rest_of_a_batch_waits_for_memory(
    released: asyncio.Event,
) -> None:
    environment = program()
    numbers(environment, 100_000, 1).rebalance().sink_to(hold)
    async with environments(2) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        (source,) = (one for name, one in subtasks.items() if name.startswith("Source"))
        await settled(lambda: source.io_metrics().records_out)
        answer = source.submit(source.io_metrics)
        await settled(lambda: source.io_metrics().records_out)
        assert not answer.done()
        released.set()
        io_metrics = await answer
        assert io_metrics.records_in == io_metrics.records_out
        await running


async def test_a_mail_is_run_while_the_consumers_have_not_processed_everything(
    released: asyncio.Event,
) -> None:
    environment = program()
    collect(numbers(environment, 10, 1).rebalance().map(hold))
    async with environments(1) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        source = subtasks["Source: numbers (1/1)"]
        await until(lambda: source.io_metrics().records_out == 10)
        assert await source.submit(source.io_metrics)
        released.set()
        await running
        with pytest.raises(ClosedResourceError, match=r"Source: numbers \(1/1\) has ended"):
            source.submit(int)


async def test_a_subtask_that_is_cancelled_answers_its_mails(released: asyncio.Event) -> None:
    environment = program()
    stream = environment.from_source(Held(), name="held").rebalance()
    collect(stream.map(hold))
    async with environments(1) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        answers = [subtask.submit(asyncio.Event().wait) for subtask in subtasks.values()]
        running = asyncio.create_task(run(subtasks))
        await until(lambda: all(one.state is ExecutionState.RUNNING for one in subtasks.values()))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for answer in answers:
            with pytest.raises(ClosedResourceError):
                await answer


# -- states --------------------------------------------------------------------------------------


async def test_a_subtask_goes_through_its_states(released: asyncio.Event) -> None:
    environment = program()
    collect(environment.from_source(Held(), name="held").map(abs))
    async with environments(1) as workers:
        (subtask,) = deploy(environment.job_graph(), workers).values()
        assert subtask.statistics().state == "CREATED"
        subtask.open()
        assert subtask.statistics().state == "DEPLOYING"
        running = asyncio.create_task(subtask.run())
        await until(lambda: subtask.io_metrics().records_in == 1)
        assert subtask.statistics().state == "RUNNING"
        with pytest.raises(
            LocalProtocolError, match=r'subtask "Source: held.* cannot take the step RUN'
        ):
            await subtask.run()
        assert subtask.statistics().state == "RUNNING"
        released.set()
        await running
        assert subtask.statistics().state == "FINISHED"


async def test_how_a_subtask_ends_is_its_last_state(released: asyncio.Event) -> None:
    def fail(number: int) -> int:
        raise ValueError

    environment = program()
    collect(environment.from_source(Held(), name="held").rebalance().map(fail))
    async with environments(1) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        await run(subtasks)
        assert {name: subtask.state for name, subtask in subtasks.items()} == {
            "Source: held (1/1)": ExecutionState.CANCELED,
            "Map -> Sink: out (1/1)": ExecutionState.FAILED,
        }


async def test_a_function_that_raises_a_cancellation_has_failed() -> None:
    """It is an error like any other, as the subtask has not been cancelled."""

    def fail(number: int) -> int:
        raise asyncio.CancelledError

    environment = program()
    collect(numbers(environment, 10, 1).map(fail))
    async with environments(1) as workers:
        (subtask,) = deploy(environment.job_graph(), workers).values()
        subtask.open()
        with pytest.raises(JobFailedError, match="CancelledError"):
            await subtask.run()
        assert subtask.state is ExecutionState.FAILED


# -- failures ------------------------------------------------------------------------------------


@needs_columns
@pytest.mark.parametrize("workers", [1, 2])
async def test_failing_function_is_the_first_cause_everywhere(tmp_path: Path, workers: int) -> None:
    def fail(number: int) -> int:
        if number == 700:
            raise ValueError("seven hundred")
        return number

    environment = program()
    mapped = numbers(environment, 1000, 1).map(fail).name("picky")
    written = mapped.rebalance().map(lambda n: (n,)).slot_sharing_group("another worker")
    written.sink_to(ParquetSink(tmp_path, {"n": "int64"}))

    async with environments(workers) as running:
        subtasks = deploy(environment.job_graph(), running)
        open_all(subtasks)
        source, sink = await asyncio.gather(
            *(subtask.run() for subtask in subtasks.values()), return_exceptions=True
        )

    assert isinstance(source, JobFailedError)
    assert str(source).startswith('operator "picky" (1/1) failed on a record of type int, ')
    assert isinstance(source.__cause__, ValueError)
    assert isinstance(sink, ProducerFailedError)
    assert 'operator "picky" (1/1) failed' in str(sink)
    assert contents(tmp_path) == []


async def test_record_that_cannot_be_serialised_names_operator_and_type() -> None:
    environment = program()
    stream = numbers(environment, 10, 1).map(lambda n: range(n) if n == 3 else n).name("setter")
    collect(stream.rebalance())

    outcome = await run_job(environment)

    error = failure(outcome, "Source: numbers -> setter (1/1)")
    assert isinstance(error, SerializationError)
    assert 'operator "setter"' in str(error)
    assert "type range" in str(error)


async def test_record_without_key_names_the_operator() -> None:
    environment = program()
    collect(numbers(environment, 10, 1).key_by(lambda n: {n} if n == 3 else n).reduce(max))

    error = failure(await run_job(environment), "Source: numbers (1/1)")

    assert isinstance(error, SerializationError)
    assert 'operator "numbers"' in str(error)
    assert "a key of type set cannot be hashed" in str(error)


async def test_failing_key_selector_names_the_partitioning() -> None:
    environment = program()
    mapped: DataStream = numbers(environment, 10, 1).map(lambda n: str(n) if n == 3 else {"id": n})
    collect(mapped.key_by(itemgetter("id")).reduce(max))

    error = failure(await run_job(environment), "Source: numbers -> Map (1/1)")

    assert isinstance(error, JobFailedError)
    assert str(error).startswith(
        'the HASH partitioning behind operator "Map" failed on 10 records of type dict, str: Type'
    )
    assert isinstance(error.__cause__, TypeError)


async def test_failing_union_keeps_its_cause() -> None:
    def fail(number: int) -> int:
        raise ValueError("no")

    environment = program()
    merged = numbers(environment, 5000).union(numbers(environment, 5000))
    collect(merged.map(fail))

    error = failure(await run_job(environment), "Map -> Sink: out (1/1)")

    # Either source may have been first.
    expected = r'operator "Map" \(1/1\) failed on a record of type int, [01]: ValueError: no'
    assert re.fullmatch(expected, str(error))


async def test_failing_close_is_a_failure_or_a_note() -> None:
    class Unclosable(MapFunction):
        def __init__(self, fails: bool) -> None:
            self.fails = fails

        def map(self, value: Any) -> Any:
            if self.fails:
                raise ValueError("in map")
            return value

        def close(self) -> None:
            raise OSError("in close")

    errors = []
    for fails in (False, True):
        environment = program()
        collect(numbers(environment, 10, 1).map(Unclosable(fails)))
        errors.append(
            failure(await run_job(environment), "Source: numbers -> Map -> Sink: out (1/1)")
        )

    assert "failed in close(): OSError: in close" in str(errors[0])
    assert "ValueError: in map" in str(errors[1])
    assert ["in close" in note for note in errors[1].__notes__] == [True]


async def test_cancelling_releases_everything(tmp_path: Path) -> None:
    class Watched(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.file = tmp_path / str(runtime_context.index)
            self.file.write_text("open")

        def map(self, value: Any) -> Any:
            return value

        def close(self) -> None:
            self.file.write_text("closed")

    environment = program(2)
    collect(numbers(environment, 10**9).map(Watched()).rebalance())
    async with environments(2) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        await until(lambda: all(subtask.io_metrics().records_in for subtask in subtasks.values()))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        for worker in workers:
            assert worker.statistics().partitions == ()
            assert worker.statistics().gates == ()

    assert contents(tmp_path) == ["closed"] * 2


async def test_open_that_fails_leaves_nothing_behind() -> None:
    tight = NetworkConfig(segment_bytes=1024, network_memory_bytes=1024 * 8)
    environment = program(8)
    collect(numbers(environment, 10, 1).rebalance().map(abs))
    async with environments(1, tight) as (worker,):
        subtasks = deploy(environment.job_graph(), [worker])
        with pytest.raises(InsufficientNetworkBuffersError):
            open_all(subtasks)
        for subtask in subtasks.values():
            subtask.close()

        assert worker.statistics().partitions == ()
        assert worker.statistics().gates == ()


async def test_opened_subtasks_can_be_closed_without_running() -> None:
    environment = program(2)
    collect(numbers(environment, 10).rebalance())
    async with environments(1, SMALL) as (worker,):
        subtasks = deploy(environment.job_graph(), [worker])
        open_all(subtasks)
        for subtask in subtasks.values():
            subtask.close()
            subtask.close()

        assert worker.statistics().partitions == ()
        assert worker.statistics().gates == ()
        assert worker.statistics().network_pool.free == worker.statistics().network_pool.total

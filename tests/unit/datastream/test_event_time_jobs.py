"""Event time in whole jobs: timestamps, watermarks and side outputs, through every exchange."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from operator import itemgetter
from typing import Any

import pytest

from flinknet.datastream import (
    AggregateFunction,
    CollectionSource,
    CollectSink,
    DataStream,
    Duration,
    OutputTag,
    ProcessContext,
    ProcessFunction,
    RuntimeContext,
    Source,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinknet.errors import ConfigurationError
from flinknet.wire.events import MAX_WATERMARK
from tests.columns import needs_columns
from tests.unit.runtime.running import Outcome, run_job

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
BY_VALUE = MONOTONOUS.with_timestamp_assigner(lambda value, stamp: value)


@pytest.fixture
def environment() -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.get_config().set_auto_watermark_interval(1)
    return environment


def numbers(environment: StreamExecutionEnvironment, end: int = 100) -> DataStream:
    return environment.from_collection(range(end))


class Said(ProcessFunction):
    """Emits the event time of each record, and at its end."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context.process_context

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.current_watermark

    def finish(self) -> Iterator[Any]:
        yield "end", None, self.context.current_watermark


class Stepwise(Source):
    """A source with one record after the other in subtask 0, and ``others`` in the other subtasks.

    Each record waits until the watermark of the one before it has come to subtask 0 of ``Heard``.
    The other subtasks then wait for the end.
    """

    heard: asyncio.Event
    ended: asyncio.Event

    def __init__(self, records: list[int], others: list[int]) -> None:
        self._records = records
        self._others = others

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[Any]]:
        if context.index:
            if self._others:
                yield self._others
            await Stepwise.ended.wait()
            return
        for record in self._records:
            yield [record]
            await Stepwise.heard.wait()
            Stepwise.heard.clear()
        Stepwise.ended.set()


class Heard(ProcessFunction):
    """Emits each record with the current watermark."""

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield value, ctx.current_watermark


def hear(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tell the source when a ``Heard`` operator has got a watermark; return them as they come.

    Everything runs in this process, with plain Python operators.
    """
    from flinknet.operators.operators import ProcessOperator

    watermarks: list[int] = []
    before = ProcessOperator.process_watermark

    async def process_watermark(self: ProcessOperator, watermark: Any) -> None:
        watermarks.append(watermark.timestamp_ms)
        await before(self, watermark)
        Stepwise.heard.set()

    monkeypatch.setattr(ProcessOperator, "process_watermark", process_watermark)
    monkeypatch.setattr(Stepwise, "heard", asyncio.Event(), raising=False)
    monkeypatch.setattr(Stepwise, "ended", asyncio.Event(), raising=False)
    return watermarks


@pytest.mark.parametrize("workers", [1, 2])
async def test_watermarks_come_through_chains_and_exchanges_while_a_job_runs(
    environment: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Each record waits until event time has come to the one before it.

    There are two subtasks, one of them idle; two exchanges, local or not; and a union of a stream
    with itself. A source that waits longer than a millisecond is idle, too. Then the other branch
    of the union sets event time, and a record on its way may be late.
    """
    watermarks = hear(monkeypatch)
    strategy = BY_VALUE.with_idleness(Duration.of_millis(1))
    stream = environment.from_source(Stepwise([10, 20, 30, 40], others=[]))
    stamped = stream.assign_timestamps_and_watermarks(strategy)
    spread = stamped.map(lambda value: value).rebalance().filter(lambda value: True)
    both = spread.union(stamped.filter(lambda value: False)).global_()
    both.process(Heard()).set_parallelism(1).sink_to(CollectSink()).name("out")
    outcome = await run_job(environment, workers=workers)
    assert sorted(value for value, _ in outcome.collected["out"]) == [10, 20, 30, 40]
    assert watermarks == sorted(set(watermarks))
    assert set(watermarks) >= {9, 19, 29, MAX_WATERMARK}


async def said_by(make: Callable[[DataStream], DataStream], stream: DataStream) -> Outcome:
    make(stream).sink_to(CollectSink()).name("out")
    program = stream._program
    assert isinstance(program, StreamExecutionEnvironment)
    return await run_job(program, workers=2)


@pytest.mark.parametrize(
    "exchange",
    [
        lambda stream: stream,
        lambda stream: stream.rebalance(),
        lambda stream: stream.rescale(),
        lambda stream: stream.shuffle(),
        lambda stream: stream.broadcast(),
        lambda stream: stream.partition_custom(lambda key, count: key % count, lambda value: value),
        lambda stream: stream.rebalance(adaptive=True),
    ],
    ids=["forward", "rebalance", "rescale", "shuffle", "broadcast", "custom", "adaptive"],
)
async def test_every_exchange_carries_timestamps_and_the_end_of_event_time(
    environment: StreamExecutionEnvironment, exchange: Callable[[DataStream], DataStream]
) -> None:
    stream = numbers(environment).assign_timestamps_and_watermarks(BY_VALUE)
    outcome = await said_by(lambda one: exchange(one).process(Said()), stream)
    out = outcome.collected["out"]
    ends = [record for record in out if record[0] == "end"]
    assert {end[2] for end in ends} == {MAX_WATERMARK}
    assert {value for value, *_ in out} - {"end"} == set(range(100))
    assert all(value == stamp for value, stamp, _ in out if value != "end")


async def test_a_stream_without_timestamps_knows_none(
    environment: StreamExecutionEnvironment,
) -> None:
    outcome = await said_by(lambda one: one.process(Said()), numbers(environment, 3))
    lowest = -(1 << 63)
    assert sorted(outcome.collected["out"], key=str)[:3] == [
        ("end", None, lowest),
        ("end", None, lowest),
        (0, None, lowest),
    ]


async def test_keys_of_values_find_their_subtask(environment: StreamExecutionEnvironment) -> None:
    stream = numbers(environment).assign_timestamps_and_watermarks(BY_VALUE)
    sums = stream.key_by(lambda value: value % 7).reduce(int.__add__, emit="end_of_input")
    sums.sink_to(CollectSink()).name("out")
    outcome = await run_job(environment, workers=2)
    expected = [sum(range(rest, 100, 7)) for rest in range(7)]
    assert sorted(outcome.collected["out"]) == sorted(expected)


class Summed(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


@pytest.mark.parametrize("fold", ["reduce", "aggregate"])
async def test_final_results_of_a_fold_are_not_late(
    environment: StreamExecutionEnvironment, fold: str
) -> None:
    """They come before the end of event time, so windows behind have all of them, once."""
    keyed = (
        numbers(environment)
        .assign_timestamps_and_watermarks(BY_VALUE)
        .key_by(lambda value: value % 7)
    )
    if fold == "reduce":
        sums = keyed.reduce(int.__add__, emit="end_of_input")
    else:
        sums = keyed.aggregate(Summed(), emit="end_of_input").map(itemgetter(1))
    windows = sums.rebalance().assign_timestamps_and_watermarks(BY_VALUE)
    counts = windows.map(lambda value: 1).window_all(
        TumblingEventTimeWindows.of(Time.milliseconds(10_000))
    )
    counts.reduce(int.__add__).sink_to(CollectSink()).name("out")
    assert (await run_job(environment, workers=2)).collected["out"] == [7]


EVEN, THIRD, UNREAD = OutputTag("even"), OutputTag("third"), OutputTag("unread")


def sort_out(value: int, ctx: ProcessContext) -> Iterator[Any]:
    yield value
    if value % 2 == 0:
        yield EVEN, value
    if value % 3 == 0:
        yield THIRD, (value, ctx.timestamp())
    yield UNREAD, "dropped"


@pytest.mark.parametrize("stamped", [False, True])
async def test_side_outputs_go_their_own_ways(
    environment: StreamExecutionEnvironment, stamped: bool
) -> None:
    """One goes to the same task, another over the network.

    Another process function may have none.
    """
    stream = numbers(environment, 12)
    if stamped:
        stream = stream.assign_timestamps_and_watermarks(BY_VALUE)
    main = stream.process(sort_out)
    main.process(lambda value, ctx: [value]).sink_to(CollectSink()).name("main")
    main.get_side_output(EVEN).map(lambda value: value).sink_to(CollectSink()).name("even")
    third = main.get_side_output(THIRD).key_by(lambda value: value[0])
    third.process(lambda value, ctx: [(*value, ctx.timestamp())]).sink_to(CollectSink()).name("3")
    outcome = await run_job(environment, workers=2)
    assert sorted(outcome.collected["main"]) == list(range(12))
    assert sorted(outcome.collected["even"]) == [0, 2, 4, 6, 8, 10]
    assert sorted(outcome.collected["3"]) == [
        (value, value, value) if stamped else (value, None, None) for value in (0, 3, 6, 9)
    ]


async def test_a_side_output_can_be_read_alone(environment: StreamExecutionEnvironment) -> None:
    even = numbers(environment, 5).process(sort_out).get_side_output(EVEN)
    even.sink_to(CollectSink()).name("even")
    outcome = await run_job(environment)
    assert sorted(outcome.collected["even"]) == [0, 2, 4]


def test_a_union_has_timestamps_or_has_none(environment: StreamExecutionEnvironment) -> None:
    stamped = numbers(environment).assign_timestamps_and_watermarks(BY_VALUE)
    stamped.union(numbers(environment)).map(lambda value: value).print()
    with pytest.raises(ConfigurationError, match='"Map" reads a union of "Timestamps/Watermarks"'):
        environment.job_graph()


def test_no_source_has_timestamps_of_its_own(environment: StreamExecutionEnvironment) -> None:
    """PyFlink's word count example relies on this."""
    source = CollectionSource([1])
    environment.from_source(source, MONOTONOUS, "numbers").print()
    assert not environment.job_graph().vertices[-1].operators[-1].stamped


def test_a_strategy_without_assigner_needs_timestamps(
    environment: StreamExecutionEnvironment,
) -> None:
    stamped = numbers(environment).assign_timestamps_and_watermarks(BY_VALUE)
    stamped.assign_timestamps_and_watermarks(MONOTONOUS).print()
    assert environment.job_graph(clear=True).vertices[-1].operators[-1].stamped
    numbers(environment).assign_timestamps_and_watermarks(MONOTONOUS).print()
    with pytest.raises(ConfigurationError, match="needs records with timestamps"):
        environment.job_graph()


@needs_columns
def test_columns_have_no_timestamps(environment: StreamExecutionEnvironment) -> None:
    stamped = numbers(environment).assign_timestamps_and_watermarks(BY_VALUE)
    stamped.key_by_columns("a").print()
    with pytest.raises(ConfigurationError, match="key_by_columns cuts Arrow record batches"):
        environment.job_graph()


def test_side_outputs_are_of_process_functions(environment: StreamExecutionEnvironment) -> None:
    mapped = numbers(environment).map(lambda value: value)
    with pytest.raises(ConfigurationError, match='"Map" has no side outputs'):
        mapped.get_side_output(EVEN)
    processed = mapped.process(sort_out)
    with pytest.raises(ConfigurationError, match="needs an OutputTag, not 'even'"):
        processed.get_side_output("even")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match='not to its side output "even"'):
        processed.get_side_output(EVEN).name("other")


@pytest.mark.parametrize("interval", [-1, 1.5, True, "200"])
def test_the_latency_tracking_interval_is_checked(
    environment: StreamExecutionEnvironment, interval: Any
) -> None:
    config = environment.get_config()
    with pytest.raises(ConfigurationError, match="choose 0 or more milliseconds"):
        config.set_latency_tracking_interval(interval)
    assert config.get_latency_tracking_interval() == 0
    assert config.set_latency_tracking_interval(50).get_latency_tracking_interval() == 50


@pytest.mark.parametrize("interval", [-1, 1.5, True, "200"])
def test_the_watermark_interval_is_checked(
    environment: StreamExecutionEnvironment, interval: Any
) -> None:
    config = environment.get_config()
    with pytest.raises(ConfigurationError, match="choose 0 or more milliseconds"):
        config.set_auto_watermark_interval(interval)
    assert config.set_auto_watermark_interval(50).get_auto_watermark_interval() == 50

"""Programs with declared types, rows, and PyFlink's other names of methods, as whole jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    Instant,
    NumberSequenceSource,
    OutputTag,
    ProcessContext,
    ProcessFunction,
    Row,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from flinknet.errors import ConfigurationError, JobFailedError
from tests.unit.runtime.running import run_job

READING = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.INT()])
READINGS = [("a", 1), ("b", 5), ("a", 3), ("b", 2)]


@pytest.fixture
def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment().set_parallelism(2)


async def collected(environment: StreamExecutionEnvironment) -> dict[str, list[Any]]:
    return (await run_job(environment)).collected


async def test_rows_and_instants_cross_the_network(environment: StreamExecutionEnvironment) -> None:
    rows = environment.from_collection(READINGS, READING)
    assert rows.get_type() == READING
    doubled = rows.rebalance().map(lambda row: Row(key=row.key, value=row.value * 2), READING)
    doubled.key_by(lambda row: row.key, Types.STRING()).sum("value").sink_to(CollectSink()).name(
        "sums"
    )
    rows.rebalance().map(lambda row: Instant(row.value, 0)).name("times").rebalance().sink_to(
        CollectSink()
    ).name("instants")
    found = await collected(environment)
    by_key = sorted(found["sums"], key=lambda row: (row.key, row.value))
    assert by_key == [
        Row(key="a", value=2),
        Row(key="a", value=8),
        Row(key="b", value=10),
        Row(key="b", value=14),
    ]
    assert sorted(found["instants"]) == [Instant(second, 0) for second in (1, 2, 3, 5)]


async def test_declared_lists_arrive_as_lists(environment: StreamExecutionEnvironment) -> None:
    lists = environment.from_collection([1, 2]).map(lambda n: (n, n), Types.LIST(Types.INT()))
    lists.rebalance().map(lambda value: (type(value).__name__, *value)).sink_to(CollectSink()).name(
        "out"
    )
    found = await collected(environment)
    assert sorted(found["out"]) == [("list", 1, 1), ("list", 2, 2)]


async def test_a_result_of_another_type_fails_its_operator(
    environment: StreamExecutionEnvironment,
) -> None:
    stream = environment.from_collection([1]).map(str, Types.INT()).set_parallelism(1).name("texts")
    stream.sink_to(CollectSink())
    with pytest.raises(JobFailedError, match='operator "texts".*to the declared type, Integer'):
        await collected(environment)


def test_a_record_of_a_collection_is_refused_at_once(
    environment: StreamExecutionEnvironment,
) -> None:
    with pytest.raises(ConfigurationError, match="'x' is no int|no Integer|integer"):
        environment.from_collection([1, "x"], Types.INT())


class Odd(ProcessFunction):
    tag = OutputTag("odd", [Types.INT(), Types.STRING()])

    def process_element(self, value: int, ctx: ProcessContext) -> Iterator[Any]:
        yield (self.tag, (value, "odd")) if value % 2 else value


async def test_side_outputs_and_windows_have_types(environment: StreamExecutionEnvironment) -> None:
    numbers = environment.from_source(
        NumberSequenceSource(1, 4),
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n),
        "numbers",
    ).set_parallelism(1)
    split = numbers.process(Odd(), Types.LONG())
    split.sink_to(CollectSink()).name("even")
    side = split.get_side_output(Odd.tag)
    assert side.get_type() == Types.ROW([Types.INT(), Types.STRING()])
    side.sink_to(CollectSink()).name("odd")
    windows = numbers.map(lambda n: (n % 2, n), Types.TUPLE([Types.INT(), Types.LONG()])).key_by(
        lambda pair: pair[0]
    )
    sums = windows.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(
        lambda one, other: (one[0], one[1] + other[1])
    )
    assert sums.get_type() == Types.TUPLE([Types.INT(), Types.LONG()])
    sums.sink_to(CollectSink()).name("sums")
    found = await collected(environment)
    assert sorted(found["even"]) == [2, 4]
    assert found["odd"] == [Row(f0=1, f1="odd"), Row(f0=3, f1="odd")]
    assert sorted(found["sums"]) == [(0, 6), (1, 4)]


@pytest.mark.filterwarnings("ignore:job .* runs in mode BATCH")
async def test_extremes_by_key_and_projections(environment: StreamExecutionEnvironment) -> None:
    environment.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    pairs = environment.from_collection([("a", 3, 0), ("a", 1, 1), ("a", 1, 2), ("b", 7, 3)])
    keyed = pairs.key_by(lambda pair: pair[0])
    for name in ("min", "max", "min_by", "max_by"):
        getattr(keyed, name)(1).sink_to(CollectSink()).name(name)
    pairs.project(2, 0).add_sink(CollectSink()).name("projected")
    found = await collected(environment)
    assert sorted(found["min"]) == [("a", 1, 0), ("b", 7, 3)]
    assert sorted(found["max"]) == [("a", 3, 0), ("b", 7, 3)]
    assert sorted(found["min_by"]) == [("a", 1, 1), ("b", 7, 3)]
    assert sorted(found["max_by"]) == [("a", 3, 0), ("b", 7, 3)]
    assert sorted(found["projected"]) == [(0, "a"), (1, "a"), (2, "a"), (3, "b")]


async def test_pyflinks_older_shapes_of_sources_and_sinks(
    environment: StreamExecutionEnvironment,
) -> None:
    numbers = GeneratorSource(lambda number: (number, "x"), 3)
    pairs = environment.add_source(numbers, "pairs", Types.ROW([Types.INT(), Types.STRING()]))
    pairs.add_sink(CollectSink()).name("rows")
    assert pairs.get_name() == "pairs"
    found = await collected(environment)
    assert sorted(row.f0 for row in found["rows"]) == [0, 1, 2]


def test_a_projection_knows_its_type(environment: StreamExecutionEnvironment) -> None:
    kind = Types.TUPLE([Types.INT(), Types.STRING()])
    assert environment.from_collection([(1, "a")], kind).project(1).get_type() == Types.TUPLE(
        [Types.STRING()]
    )
    with pytest.raises(ConfigurationError, match="only tuples"):
        environment.from_collection([1], Types.INT()).project(0)


def test_a_union_is_of_one_type(environment: StreamExecutionEnvironment) -> None:
    one = environment.from_collection([1], Types.INT())
    with pytest.raises(ConfigurationError, match="one type, not Integer and String"):
        one.union(environment.from_collection(["a"], Types.STRING()))


async def test_functions_may_change_what_they_get_unless_objects_are_reused(
    environment: StreamExecutionEnvironment,
) -> None:
    def counted(record: dict[str, int]) -> dict[str, int]:
        record["n"] += 1
        return record

    async def run(reuse: bool) -> list[list[dict[str, int]]]:
        program = StreamExecutionEnvironment()
        if reuse:
            program.get_config().enable_object_reuse()
        records = program.from_collection([{"n": 0}, {"n": 5}])
        for name in ("one", "other"):
            records.map(counted).sink_to(CollectSink()).name(name)
        found = await collected(program)
        return [found["one"], found["other"]]

    assert await run(reuse=False) == [[{"n": 1}, {"n": 6}]] * 2
    assert await run(reuse=True) == [[{"n": 2}, {"n": 7}]] * 2


def test_batch_is_for_what_ends(environment: StreamExecutionEnvironment) -> None:
    environment.set_runtime_mode(RuntimeExecutionMode.BATCH).enable_checkpointing(1000)
    environment.from_collection([1]).print()
    with pytest.warns(UserWarning, match='job "counts" runs in mode BATCH: .* pipelined') as told:
        graph = environment.job_graph("counts", clear=True)
    assert len(told) == 1
    assert (graph.checkpointing, graph.auto_watermark_interval_ms) == (None, 0)
    environment.from_source(GeneratorSource(int)).name("endless").print()
    with pytest.raises(ConfigurationError, match='"Source: endless" does not end'):
        environment.job_graph()
    environment.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    assert environment.job_graph().checkpointing is not None
    with pytest.raises(ConfigurationError, match="RuntimeExecutionMode"):
        environment.set_runtime_mode("BATCH")  # type: ignore[arg-type]


def test_a_name_is_no_watermark_strategy(environment: StreamExecutionEnvironment) -> None:
    with pytest.raises(ConfigurationError, match="name=..."):
        environment.from_source(GeneratorSource(int), "numbers")  # type: ignore[call-overload]

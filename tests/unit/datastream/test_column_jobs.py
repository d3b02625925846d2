"""Jobs with Arrow record batches as records, over real network environments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flinknet.config import NetworkConfig
from flinknet.datastream import (
    CollectSink,
    FileSource,
    MapBatchFunction,
    ParquetSink,
    ProcessBatchFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flinknet.datastream.streams import DataStream
from flinknet.errors import JobFailedError, ProducerFailedError, SerializationError
from tests.unit.runtime.running import Outcome, run_job

CONFIG = NetworkConfig(segment_bytes=4096, network_memory_bytes=4096 * 256)
CITIES = ["Ålesund", "Kraków", "Rabat", "Osaka", "Lima", "東京", ""]


def flights(rows: int) -> pa.Table:
    numbers = range(rows)
    return pa.table(
        {
            "city": [CITIES[number * 31 % 1009 % len(CITIES)] for number in numbers],
            "month": pa.array([number % 12 for number in numbers], pa.int8()),
            "delay": pa.array([number % 97 if number % 5 else None for number in numbers]),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> pa.Table:
    """Write twenty thousand rows to the file "in.parquet", with row groups of a thousand."""
    made = flights(20_000)
    pq.write_table(made, tmp_path / "in.parquet", row_group_size=1000)
    return made


AGGREGATES = [("delay", "sum"), ("delay", "max"), ("delay", "count")]


class DelaysByKey(MapBatchFunction):
    """Aggregates every batch, and the aggregates at the end of the input."""

    def __init__(self, *keys: str) -> None:
        self._keys = list(keys)
        self._parts: list[pa.Table] = []

    def map_batch(self, values: list[Any]) -> None:
        rows = pa.Table.from_batches(values)
        self._parts.append(rows.group_by(self._keys).aggregate(AGGREGATES))

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self._parts:
            merged = pa.concat_tables(self._parts).group_by(self._keys)
            result = merged.aggregate(
                [("delay_sum", "sum"), ("delay_max", "max"), ("delay_count", "sum")]
            )
            yield from result.rename_columns([*self._keys, "total", "most", "count"]).to_batches()


def sorted_rows(table: pa.Table, *keys: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.sort_by([(key, "ascending") for key in keys]).to_pylist()
    return rows


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("keys", [("city",), ("month", "city")])
async def test_aggregation_of_columns(
    tmp_path: Path, table: pa.Table, keys: tuple[str, ...], workers: int
) -> None:
    """It goes from a Parquet file to others, and no row becomes a Python object."""
    environment = StreamExecutionEnvironment().set_parallelism(3)
    source = FileSource(tmp_path / "in.parquet", records="batch")
    rows = environment.from_source(source).set_parallelism(2)
    totals = rows.key_by_columns(*keys).map_batch(DelaysByKey(*keys))
    names = [*keys, "total", "most", "count"]
    kinds = {"city": "string", "month": "int8"}
    declared = {name: kinds.get(name, "int64") for name in names}
    totals.sink_to(ParquetSink(tmp_path / "out", declared))

    outcome = await run_job(environment, workers=workers, config=CONFIG)

    assert outcome.collected == {}
    expected = table.group_by(list(keys)).aggregate(AGGREGATES).rename_columns(names)
    written = pq.read_table(tmp_path / "out")
    assert sorted_rows(written, *keys) == sorted_rows(expected, *keys)


def results_of(outcome: Outcome) -> dict[str, Any]:
    outcome.collected  # noqa: B018 - raises if a subtask failed
    return outcome.results


def collect(stream: DataStream) -> None:
    stream.sink_to(CollectSink()).name("out")


async def test_every_row_arrives_once_at_the_subtask_of_its_key(
    tmp_path: Path, table: pa.Table
) -> None:
    """The rows of a key stay in order, and a batch of the source counts as one record
    everywhere."""

    class Placed(MapBatchFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.index = runtime_context.index

        def map_batch(self, values: list[Any]) -> Iterator[Any]:
            for value in values:
                yield self.index, value

    environment = StreamExecutionEnvironment().set_parallelism(4)
    source = FileSource(tmp_path / "in.parquet", records="batch", columns=["city", "delay"])
    rows = environment.from_source(source, name="rows").set_parallelism(1)
    collect(rows.key_by_columns("city").map_batch(Placed()))

    outcome = await run_job(environment, config=CONFIG)

    places: dict[str, set[int]] = {}
    arrived: dict[str, list[Any]] = {city: [] for city in CITIES}
    for index, batch in outcome.collected["out"]:
        assert batch.num_rows
        for row in batch.to_pylist():
            places.setdefault(row["city"], set()).add(index)
            arrived[row["city"]].append(row["delay"])
    assert {len(indices) for indices in places.values()} == {1}
    assert len({index for indices in places.values() for index in indices}) > 1
    for city in CITIES:
        of_city = table.filter(pc.equal(table["city"], city))
        assert arrived[city] == of_city["delay"].to_pylist()
    results = results_of(outcome)
    source_result = results.pop("Source: rows (1/1)")
    assert source_result.records_in == 1
    assert source_result.records_out == sum(result.records_in for result in results.values())


async def test_rows_and_records_of_a_key_meet() -> None:
    """This is a union of a stream keyed by a column and one keyed by a function."""
    environment = StreamExecutionEnvironment().set_parallelism(4)
    columns = environment.from_collection([pa.record_batch({"n": range(100)})])
    records = environment.from_collection(range(100)).name("numbers")
    both = columns.key_by_columns("n").union(records.key_by(lambda n: n))
    collect(both.map_batch(WithSubtask()))

    outcome = await run_job(environment)

    places: dict[int, set[int]] = {}
    for number, index in outcome.collected["out"]:
        places.setdefault(number, set()).add(index)
    assert len(outcome.collected["out"]) == 200
    assert {len(indices) for indices in places.values()} == {1}
    assert set().union(*places.values()) == {0, 1, 2, 3}


class WithSubtask(MapBatchFunction):
    """Returns every number, in a batch or alone, with its subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.index

    def map_batch(self, values: list[Any]) -> Iterator[Any]:
        for value in values:
            numbers = [value] if isinstance(value, int) else value["n"].to_pylist()
            for number in numbers:
                yield number, self.index


async def test_collection_of_record_batches() -> None:
    """They are records like others: through map, filter, and any exchange."""
    batches = [pa.record_batch({"n": [number] * number}) for number in range(1, 300)]
    environment = StreamExecutionEnvironment().set_parallelism(2)
    stream = environment.from_collection(batches).rebalance()
    odd = stream.filter(lambda batch: batch.num_rows % 2 == 1).rescale()
    collect(odd.map(lambda batch: batch.append_column("twice", pc.add(batch["n"], batch["n"]))))

    outcome = await run_job(environment)

    collected = sorted(outcome.collected["out"], key=len)
    assert [batch.num_rows for batch in collected] == list(range(1, 300, 2))
    assert all(batch["twice"][0].as_py() == 2 * batch.num_rows for batch in collected)


async def test_keyed_batches_of_records() -> None:
    """Each key has all of its records, for any division into buffers."""

    class Totals(ProcessBatchFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.total = runtime_context.get_state(ValueStateDescriptor("total"))

        def process_batch(self, key: Any, values: list[Any]) -> Iterator[Any]:
            self.total.update((self.total.value() or 0) + sum(values))
            yield key, self.total.value()

    environment = StreamExecutionEnvironment().set_parallelism(3)
    numbers = environment.from_collection(range(10_000))
    collect(numbers.key_by(lambda n: n % 7).process_batch(Totals()))

    outcome = await run_job(environment)

    last: dict[int, int] = {}
    for key, total in outcome.collected["out"]:
        last[key] = max(total, last.get(key, 0))
    assert last == {key: sum(range(key, 10_000, 7)) for key in range(7)}
    assert len(outcome.collected["out"]) < 10_000


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((1, 2), "takes Arrow record batches, not a record of type tuple"),
        (pa.record_batch({"town": ["Oslo"]}), 'has no columns "city", which is the key'),
        (pa.record_batch({"city": [{"name": "Oslo"}]}), "a key of type dict cannot be hashed"),
    ],
)
async def test_record_that_cannot_be_cut(record: Any, message: str) -> None:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    stream = environment.from_collection([record]).name("made")
    collect(stream.key_by_columns("city").map(lambda batch: batch))

    results = (await run_job(environment)).results

    error = results["Source: made (1/1)"]
    assert isinstance(error, SerializationError | JobFailedError)
    assert 'operator "made"' in str(error)
    assert message in str(error)


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


async def test_failing_function_of_columns_is_the_first_cause(
    tmp_path: Path, table: pa.Table
) -> None:
    def fail(batches: list[Any]) -> Any:
        return [batch.select(["country"]) for batch in batches]

    environment = StreamExecutionEnvironment().set_parallelism(2)
    rows = environment.from_source(
        FileSource(tmp_path / "in.parquet", records="batch"), name="rows"
    )
    mapped = rows.set_parallelism(1).key_by_columns("city").map_batch(fail).name("picky")
    mapped.sink_to(ParquetSink(tmp_path / "out", {"country": "string"}))

    results = (await run_job(environment, config=CONFIG)).results

    errors = [error for error in results.values() if isinstance(error, JobFailedError)]
    assert errors
    for error in errors:
        assert str(error).startswith('operator "picky" (')
        assert "failed on a record of type RecordBatch, with" in str(error)
    assert not any(isinstance(error, ProducerFailedError) for error in errors)
    assert names_in(tmp_path) == ["in.parquet"]

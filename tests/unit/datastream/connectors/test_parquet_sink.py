"""Parquet files as a sink."""

from __future__ import annotations

import datetime
import struct
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinknet.datastream import CommitContext, Committer, FileSource, ParquetSink
from flinknet.datastream.connectors.parquet_sink import ROW_GROUP_ROWS
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.operators.sink import SinkOperator
from tests.unit.operators.harness import Harness, context


def table(start: int, rows: int) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"n{number}" for number in numbers],
            "delay": pa.array([number if number % 3 else None for number in numbers], pa.int32()),
        }
    )


def sink(
    path: Path,
    columns: Any = None,
    index: int = 0,
    parallelism: int = 1,
    job_id: str = "embedded",
) -> Harness:
    columns = columns if columns is not None else {"id": "int64", "name": "string"}
    place = context(index=index, parallelism=parallelism, job_id=job_id)
    return Harness(SinkOperator(ParquetSink(path, columns)), place)


def files(path: Path) -> list[str]:
    """Return the names of the files that readers do not skip."""
    return sorted(file.name for file in path.iterdir() if file.name[0] not in "._")


def staged_below(path: Path) -> list[str]:
    return sorted(file.name for file in path.glob(".out.*/*"))


def commit(path: Path, *harnesses: Harness) -> None:
    """Commit the prepared files of a job's subtasks, as a worker does at the end."""
    committables = [one for harness in harnesses for one in harness.context.committables]
    committer_of(path, harnesses[0].context.job_id).commit(committables)


def committer_of(path: Path, job_id: str) -> Committer:
    return ParquetSink(path, ["id"]).create_committer(CommitContext("tested", job_id, 0))


async def test_the_files_of_all_subtasks_are_committed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "out"
    prepared = []
    for index in range(2):
        async with sink(path, index=index, parallelism=2) as harness:
            await harness.process((index, "a"), (index, None))
            await harness.process((index, "b"))
            await harness.end_of_input()
            prepared.append(harness)
    assert not path.exists(), "a reader sees nothing before"
    commit(path, *prepared)

    names = ["part-00000-of-00002-embedded-0.parquet", "part-00001-of-00002-embedded-0.parquet"]
    assert files(path) == names
    assert FileSource(path).files == tuple(path / name for name in names)
    written = pq.read_table(path)
    assert written.column("id").to_pylist() == [0, 0, 0, 1, 1, 1]
    assert written.column("name").to_pylist() == ["a", None, "b"] * 2
    assert written.schema.types == [pa.int64(), pa.string()]


async def test_rows_are_written_in_row_groups(tmp_path: Path) -> None:
    async with sink(tmp_path, ["id", "name"]) as harness:
        await harness.process(*((number, "x") for number in range(ROW_GROUP_ROWS + 1)))
        await harness.process((-1, "y"))
        await harness.end_of_input()
    commit(tmp_path, harness)

    metadata = pq.read_metadata(tmp_path / "part-00000-of-00001-embedded-0.parquet")
    assert metadata.num_rows == ROW_GROUP_ROWS + 2
    assert metadata.num_row_groups == 2


async def test_a_job_that_fails_after_a_subtask_has_finished_changes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out"
    async with sink(path) as harness:
        await harness.process((1, "before"))
        await harness.end_of_input()
    commit(path, harness)

    async with sink(path, index=0, parallelism=2, job_id="failing") as finished:
        await finished.process((2, "after"))
        await finished.end_of_input()
    async with sink(path, index=1, parallelism=2, job_id="failing") as failed:
        await failed.process(*((number, "x") for number in range(ROW_GROUP_ROWS)))
        assert staged_below(tmp_path) == [
            "part-00000-of-00002-failing-0.parquet",
            "part-00001-of-00002-failing-0.parquet",
        ]
    committer_of(path, "failing").abort()

    assert pq.read_table(path).column("id").to_pylist() == [1]
    assert staged_below(tmp_path) == []


async def test_subtask_without_records_writes_an_empty_file(tmp_path: Path) -> None:
    async with sink(tmp_path) as harness:
        await harness.end_of_input()
    commit(tmp_path, harness)

    assert pq.read_table(tmp_path).num_rows == 0
    assert pq.read_table(tmp_path).column_names == ["id", "name"]


async def test_no_records_and_no_types_is_no_file(tmp_path: Path) -> None:
    async with sink(tmp_path, ["id", "name"]) as harness:
        await harness.end_of_input()
    commit(tmp_path, harness)

    assert files(tmp_path) == []


async def test_dicts_and_inferred_types(tmp_path: Path) -> None:
    async with sink(tmp_path, ["name", "id"]) as harness:
        await harness.process({"id": 1, "name": "a", "other": 0})
        await harness.end_of_input()
    commit(tmp_path, harness)

    assert pq.read_table(tmp_path).to_pylist() == [{"name": "a", "id": 1}]


async def test_records_that_do_not_fit_the_columns(tmp_path: Path) -> None:
    async with sink(tmp_path) as harness:
        await harness.process(("not a number", "a"))
        with pytest.raises(JobFailedError, match=r"failed in finish.*column \"id\" of record 1"):
            await harness.end_of_input()

    assert files(tmp_path) == []


def batch(start: int, rows: int) -> pa.RecordBatch:
    (only,) = table(start, rows).to_batches()
    return only


async def test_record_batches_are_written_with_the_sinks_columns(tmp_path: Path) -> None:
    """Columns are found by name, put into the sink's order, and cast to the sink's types."""
    columns = {"delay": "double", "id": "int16"}
    async with sink(tmp_path, columns) as harness:
        await harness.process(batch(0, 3), batch(3, 1).slice(1))
        await harness.process(pa.record_batch({"id": [3], "delay": [0.5]}))
        await harness.end_of_input()
    commit(tmp_path, harness)

    written = pq.read_table(tmp_path)
    assert written.schema.equals(pa.schema([("delay", pa.float64()), ("id", pa.int16())]))
    assert written.to_pydict() == {"delay": [None, 1.0, 2.0, 0.5], "id": [0, 1, 2, 3]}


async def test_types_of_the_first_record_batch(tmp_path: Path) -> None:
    """Only the types of its schema are used, as with the first rows."""
    first = pa.record_batch(
        [pa.array([1], pa.int32()), pa.array(["a"]).dictionary_encode()],
        pa.schema(
            [
                pa.field("id", pa.int32(), nullable=False),
                pa.field("name", pa.dictionary(pa.int32(), pa.string())),
            ],
            metadata={"made by": "a test"},
        ),
    )
    async with sink(tmp_path, ["id", "name"]) as harness:
        await harness.process(first)
        await harness.process(pa.record_batch({"name": ["b"], "id": pa.array([None], pa.int64())}))
        await harness.end_of_input()
    commit(tmp_path, harness)

    written = pq.read_table(tmp_path)
    assert written.schema.field("id").type == pa.int32()
    assert written.to_pylist() == [{"id": 1, "name": "a"}, {"id": None, "name": "b"}]


async def test_record_batches_are_gathered_into_row_groups(tmp_path: Path) -> None:
    half = ROW_GROUP_ROWS // 2
    async with sink(tmp_path) as harness:
        for start in range(0, 4 * half, half):
            await harness.process(batch(start, half))
        await harness.end_of_input()
    commit(tmp_path, harness)

    metadata = pq.read_metadata(tmp_path / "part-00000-of-00001-embedded-0.parquet")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [
        ROW_GROUP_ROWS,
        ROW_GROUP_ROWS,
    ]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([batch(0, 1), (1, "a")], "2 records of type RecordBatch, tuple: .* not both"),
        ([(1, "a"), batch(0, 1)], "2 records of type RecordBatch, tuple: .* not both"),
        ([pa.record_batch({"id": [1]})], 'has no columns "name": it has id'),
        (
            [pa.record_batch([[1], ["a"], ["b"]], ["id", "name", "name"])],
            'has 2 columns "name": it has id, name, name',
        ),
        (
            [pa.record_batch({"id": [0.5], "name": ["a"]})],
            r'with 1 rows: ValueError: column "id", row 1 of a record batch: 0.5 is not exactly',
        ),
        ([pa.record_batch({"id": [[1]], "name": ["a"]})], r"\[1\] is not exactly .* int64"),
        ([table(0, 1)], "type Table, with 1 rows: ValueError: .* table.to_batches()"),
    ],
)
async def test_record_batches_that_do_not_fit(
    tmp_path: Path, records: list[Any], message: str
) -> None:
    async with sink(tmp_path) as harness:
        with pytest.raises(JobFailedError, match=rf'"tested" \(1/1\) failed .*{message}'):
            await harness.process(*records)

    assert files(tmp_path) == []


@pytest.mark.parametrize("rows_first", [True, False])
async def test_rows_and_record_batches_one_after_the_other(
    tmp_path: Path, rows_first: bool
) -> None:
    records = [(1, "a"), batch(0, 1)]
    first, second = records if rows_first else reversed(records)
    async with sink(tmp_path) as harness:
        await harness.process(first)
        with pytest.raises(JobFailedError, match="rows or Arrow record batches, not both"):
            await harness.process(second)


async def test_a_later_run_replaces_everything_whatever_its_parallelism(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for parallelism in (1, 3, 2):
        job_id = f"job{parallelism}"
        prepared = []
        for index in range(parallelism):
            async with sink(path, None, index, parallelism, job_id) as harness:
                await harness.process((parallelism, "a"))
                await harness.end_of_input()
                prepared.append(harness)
        commit(path, *prepared)
        assert pq.read_table(path).column("id").to_pylist() == [parallelism] * parallelism


async def test_a_directory_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").touch()
    other = sink(tmp_path)
    with pytest.raises(ConfigurationError, match=r'sink "tested": .* holds mine.parquet, which'):
        await other.operator.open(other.context)


def test_parquet_sink_without_columns(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at least one column"):
        ParquetSink(tmp_path, [])
    with pytest.raises(ConfigurationError, match="at least one column"):
        ParquetSink(tmp_path, "id")


async def test_unknown_column_type(tmp_path: Path) -> None:
    other = sink(tmp_path, {"id": "number"})
    with pytest.raises(ConfigurationError, match=r"column id .* unknown type 'number'"):
        await other.operator.open(other.context)


UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 1, 1, 23, 59, 0, 999)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int64", 1.9),
        ("int64", "7"),
        ("int64", True),
        ("int64", Decimal("1.9")),
        ("int64", 2**63),
        ("int8", 300),
        ("uint8", -1),
        ("double", 2**53 + 1),
        ("double", Decimal("0.1")),
        ("float", 1e300),
        ("halffloat", 70_000.0),
        ("bool", 1),
        ("string", b"a"),
        ("string", 7),
        ("string", "\ud800"),
        ("binary", "a"),
        ("date32", MOMENT),
        ("date32", 1),
        ("timestamp[s]", MOMENT),
        ("timestamp[us]", MOMENT.replace(tzinfo=UTC)),
        ("timestamp[us]", 1),
        (pa.timestamp("us", "UTC"), MOMENT),
        ("timestamp[ns]", datetime.datetime(9999, 1, 1)),
        ("duration[s]", datetime.timedelta(milliseconds=999)),
        ("time32[s]", datetime.time(1, 2, 3, 4)),
        ("time64[us]", datetime.time(1, 2, 3, tzinfo=UTC)),
        (pa.decimal128(5, 2), Decimal("1.234")),
        (pa.list_(pa.int64()), [1, 2.5]),
        (pa.struct({"a": pa.int64()}), {"a": 1, "z": 2}),
        (pa.struct({"a": pa.list_(pa.date32())}), {"a": [MOMENT]}),
        (pa.map_(pa.string(), pa.int8()), {"a": 1000}),
        ("null", 1),
    ],
    ids=str,
)
async def test_a_value_that_is_not_exactly_of_its_columns_type(
    tmp_path: Path, kind: Any, value: Any
) -> None:
    """The error names its column and its record.

    This holds for rows, and where possible for record batches.
    """
    async with sink(tmp_path, {"id": "int64", "k": kind}) as harness:
        await harness.process((1, None), (2, value))
        with pytest.raises(JobFailedError) as raised:
            await harness.end_of_input()
    assert 'column "k" of record 2 of this subtask' in str(raised.value)
    assert "is not exactly a value of the type" in str(raised.value)
    assert "convert the value first, or give the column another type" in str(raised.value)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int8", [1, None, 2.0]),
        ("uint64", [2**64 - 1, 0]),
        ("double", [1, 0.1, float("nan"), float("inf"), None]),
        ("float", [0.5, 1, float("nan"), float("-inf")]),
        ("large_string", ["a", None, ""]),
        ("binary", [b"\xff", b"", None]),
        (pa.binary(2), [b"ab"]),
        ("date32", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
        ("timestamp[ms]", [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31), None]),
        (pa.timestamp("us", "UTC"), [MOMENT.replace(tzinfo=UTC), None]),
        ("duration[ms]", [datetime.timedelta(days=-1, milliseconds=1)]),
        ("time64[us]", [datetime.time(23, 59, 59, 999_999), None]),
        (pa.decimal128(20, 2), [Decimal("1.50"), 3, None]),
        (pa.list_(pa.float64()), [[1, 2.5], (), None]),
        (pa.struct({"a": pa.int64(), "b": pa.string()}), [{"a": 1, "b": "x"}, None]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None]),
    ],
    ids=str,
)
async def test_values_that_are_read_back_as_they_were(
    tmp_path: Path, kind: Any, values: list[Any]
) -> None:
    async with sink(tmp_path, {"k": kind}) as harness:
        await harness.process(*((value,) for value in values))
        await harness.end_of_input()
    commit(tmp_path, harness)

    back = pq.read_table(tmp_path).column("k").to_pylist()
    shown = [list(value) if isinstance(value, tuple) else value for value in values]
    assert all(
        one == other or one != one != other != other for one, other in zip(back, shown, strict=True)
    )


async def test_a_float_is_rounded_only_to_a_declared_float(tmp_path: Path) -> None:
    async with sink(tmp_path, {"k": "float"}) as harness:
        await harness.process((0.1,))
        await harness.end_of_input()
    commit(tmp_path, harness)
    nearest = struct.unpack("f", struct.pack("f", 0.1))[0]
    assert pq.read_table(tmp_path).column("k").to_pylist() == [nearest]


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("int64", pa.array([1.0, 1.9])),
        ("float", pa.array([1.0, 1e300])),
        ("date32", pa.array([None, MOMENT])),
        ("timestamp[us]", pa.array([None, MOMENT.replace(tzinfo=UTC)])),
        ("bool", pa.array([1, 2])),
        (pa.decimal128(5, 1), pa.array([0.5, 0.25])),
        (pa.struct({"a": pa.int64()}), pa.array([None, {"a": 1, "b": 2}])),
        ("int8", pa.array(["1", "x"]).dictionary_encode()),
    ],
    ids=str,
)
async def test_a_record_batch_with_a_value_that_its_type_cannot_hold(
    tmp_path: Path, kind: Any, array: pa.Array
) -> None:
    async with sink(tmp_path, {"k": kind}) as harness:
        with pytest.raises(JobFailedError, match='column "k", row 2 of a record batch: .* exactly'):
            await harness.process(pa.record_batch({"k": array}))


async def test_types_of_the_first_records_hold_for_the_file(tmp_path: Path) -> None:
    """Prices may be whole in the first row group, and kinds may be mixed within it."""
    async with sink(tmp_path, ["price"]) as harness:
        await harness.process(*[(1,)] * ROW_GROUP_ROWS)
        await harness.process((9.99,))
        with pytest.raises(JobFailedError) as raised:
            await harness.end_of_input()
    assert f'column "price" of record {ROW_GROUP_ROWS + 1} of this subtask' in str(raised.value)
    assert "9.99 is not exactly a value of the type int64" in str(raised.value)
    assert "the type is that of the first records, because none was declared" in str(raised.value)
    for mixed in (
        [1, "a"],
        ["a", b"a"],
        [MOMENT.date(), MOMENT],
        [MOMENT, MOMENT.replace(tzinfo=UTC)],
        [None, object()],
    ):
        async with sink(tmp_path / "mixed", ["k"]) as harness:
            await harness.process(*((value,) for value in mixed))
            with pytest.raises(JobFailedError, match='column "k" of record [12] of this'):
                await harness.end_of_input()


@pytest.mark.parametrize("record", [(1, "a"), batch(0, 1)], ids=["row", "batch"])
@pytest.mark.parametrize("fields", [{"parallelism": 2}, {"checkpointed": True}], ids=str)
async def test_several_files_need_declared_types(
    tmp_path: Path, record: Any, fields: dict[str, Any]
) -> None:
    """Otherwise the files could have different types."""
    harness = Harness(SinkOperator(ParquetSink(tmp_path, ["id", "name"])), context(**fields))
    async with harness:
        with pytest.raises(ConfigurationError, match=r"declare them, .*'id': 'int64', 'name': 'st"):
            await harness.process(record)


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="two columns with the name 'id'"):
        ParquetSink(tmp_path, ["id", "name", "id"])


async def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    other = sink(tmp_path)
    with pytest.raises(ConfigurationError, match="needs pyarrow"):
        await other.operator.open(other.context)

"""Arrow and Parquet files as sources."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinknet.datastream import FileSource
from flinknet.datastream.connectors.arrow_files import (
    SOURCE_BATCH_ROWS,
    SOURCE_RECORD_BATCH_ROWS,
)
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.calls import BATCH_RECORDS
from flinknet.operators.source import SourceOperator
from tests.unit.operators.harness import Harness, context
from tests.unit.operators.letters import mails_and_slices


def table(start: int, rows: int) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"n{number}" for number in numbers],
            "delay": pa.array([number if number % 3 else None for number in numbers], pa.int32()),
        }
    )


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """Write two files with 30 and 20 rows in row groups of 10."""
    directory = tmp_path / "in"
    (directory / "day=2").mkdir(parents=True)
    pq.write_table(table(0, 30), directory / "a.parquet", row_group_size=10)
    pq.write_table(table(30, 20), directory / "day=2" / "b.parquet", row_group_size=10)
    (directory / "_SUCCESS").touch()
    (directory / ".a.parquet.crc").touch()
    return directory


@pytest.fixture
def arrow(tmp_path: Path) -> Path:
    """Write one Arrow IPC file of 30 rows in record batches of 10."""
    file = tmp_path / "in.arrow"
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, table(0, 1).schema) as writer:
        writer.write_table(table(0, 30), max_chunksize=10)
    return file


async def share(source: FileSource, index: int = 0, parallelism: int = 1) -> list[Any]:
    place = context(index=index, parallelism=parallelism)
    async with Harness(SourceOperator(source), place) as harness:
        await harness.operator.run(*mails_and_slices())  # type: ignore[attr-defined]
        return harness.records


async def test_records_of_parquet_files(parquet: Path) -> None:
    """All files below a directory are read, except those that Spark and Hadoop keep for
    themselves."""
    records = await share(FileSource(parquet))

    assert len(records) == 50
    assert records[:4] == [(0, "n0", None), (1, "n1", 1), (2, "n2", 2), (3, "n3", None)]
    assert [record[0] for record in records] == list(range(50))


async def test_chosen_columns_come_in_that_order(parquet: Path, arrow: Path) -> None:
    for path in (parquet, arrow):
        records = await share(FileSource(path, columns=["name", "id"]))
        assert records[:2] == [("n0", 0), ("n1", 1)]


async def test_records_as_dicts(parquet: Path) -> None:
    records = await share(FileSource(parquet, columns=["id", "delay"], records="dict"))

    assert records[:2] == [{"id": 0, "delay": None}, {"id": 1, "delay": 1}]


async def test_files_are_dealt_out_if_there_are_enough(parquet: Path) -> None:
    source = FileSource(parquet)

    assert [r[0] for r in await share(source, 0, 2)] == list(range(30))
    assert [r[0] for r in await share(source, 1, 2)] == list(range(30, 50))


async def test_row_groups_are_dealt_out_otherwise(parquet: Path) -> None:
    source = FileSource(parquet)

    shares = [[r[0] // 10 for r in await share(source, index, 3)][::10] for index in range(3)]

    assert shares == [[0, 3], [1, 4], [2]]


async def test_record_batches_of_arrow_files_are_dealt_out(arrow: Path) -> None:
    shares = [await share(FileSource(arrow, split="part"), index, 2) for index in range(2)]

    assert [r[0] for r in shares[0]] == [*range(10), *range(20, 30)]
    assert [r[0] for r in shares[1]] == list(range(10, 20))


async def test_more_subtasks_than_files(arrow: Path) -> None:
    source = FileSource(arrow, split="file")

    assert [len(await share(source, index, 3)) for index in range(3)] == [30, 0, 0]


@pytest.mark.parametrize("records", ["tuple", "dict"])
async def test_files_are_read_in_batches(tmp_path: Path, records: Literal["tuple", "dict"]) -> None:
    pq.write_table(table(0, 10_000), tmp_path / "big.parquet")

    batches = list(FileSource(tmp_path, records=records).read_share(context()))

    assert sum(map(len, batches)) == 10_000
    assert max(map(len, batches)) == BATCH_RECORDS


async def test_rows_with_the_same_text_share_it_where_there_are_few(tmp_path: Path) -> None:
    rows = 2 * SOURCE_BATCH_ROWS
    columns: dict[str, list[Any]] = {
        "few": [("EWR", "LGA", None, "ZÜRICH")[number % 4] for number in range(rows)],
        "many": [f"a number, {number:020}" for number in range(rows)],
        "inner": [{"few": "abc", "many": str(number)} for number in range(rows)],
        "list": [["abc", None] for _ in range(rows)],
        "bytes": [b"abc" for _ in range(rows)],
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=rows // 2)

    batches = list(FileSource(tmp_path).read_share(context()))

    records = [record for batch in batches for record in batch]
    assert records == list(zip(*columns.values(), strict=True))
    assert [len({id(record[0]) for record in batch}) for batch in batches] == [4] * len(batches)


async def test_a_dictionary_of_an_arrow_file(tmp_path: Path) -> None:
    columns = {
        "text": pa.array(["a", None, "b", "a"]).dictionary_encode(),
        "number": pa.array([7, 7, 8, None]).dictionary_encode("encode"),
    }
    file = tmp_path / "in.arrow"
    written = pa.table(columns)
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, written.schema) as writer:
        writer.write_table(written)

    assert await share(FileSource(file)) == [("a", 7), (None, 7), ("b", 8), ("a", None)]


async def test_record_batches_as_records(parquet: Path, arrow: Path) -> None:
    for path, rows in ((parquet, [30, 20]), (arrow, [10, 10, 10])):
        batches = await share(FileSource(path, columns=["name", "id"], records="batch"))

        assert [batch.num_rows for batch in batches] == rows
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        assert batches[0].schema.names == ["name", "id"]
        read = pa.Table.from_batches(batches)
        assert read.column("id").to_pylist() == list(range(sum(rows)))


async def test_record_batches_have_an_end(tmp_path: Path) -> None:
    """Their size is bounded for any row groups of a file, and no batch is empty."""
    rows = 2 * SOURCE_RECORD_BATCH_ROWS + 1
    numbers = pa.table({"id": pa.array(range(rows), pa.int32())})
    pq.write_table(numbers, tmp_path / "a.parquet")
    pq.write_table(numbers.slice(0, 0), tmp_path / "b.parquet")
    file = tmp_path / "c.arrow"
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, numbers.schema) as writer:
        writer.write_batch(numbers.to_batches()[0].slice(0, 0))
        writer.write_table(numbers)

    batches = await share(FileSource(tmp_path, records="batch"))

    sizes = [batch.num_rows for batch in batches]
    assert sizes == [SOURCE_RECORD_BATCH_ROWS, SOURCE_RECORD_BATCH_ROWS, 1] * 2


async def test_column_that_is_not_there(parquet: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"a.parquet has no column dest: it has id, name"):
        await share(FileSource(parquet, columns=["id", "dest"]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "missing does not exist"),
        ("empty", "empty holds no Parquet or Arrow file"),
        ("table.csv", "table.csv has an unknown suffix"),
    ],
)
def test_path_without_records(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "table.csv").touch()

    with pytest.raises(ConfigurationError, match=message):
        FileSource(tmp_path / name)


def test_wrong_options_of_a_file_source(parquet: Path) -> None:
    with pytest.raises(ConfigurationError, match='records is \'list\'.*"dict" or "batch"'):
        FileSource(parquet, records="list")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="split is 'row'"):
        FileSource(parquet, split="row")  # type: ignore[arg-type]


async def test_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")

    with pytest.raises(
        JobFailedError,
        match=r"after 0 records: UnreadableError: .*torn.parquet: Arrow",
    ):
        await share(FileSource(tmp_path))


def write(file: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), file)
    return file


async def test_columns_are_found_by_name_in_all_files(tmp_path: Path) -> None:
    """The files store the columns in another order and with other types.

    A subtask that does not read the first file finds them too.
    """
    write(tmp_path / "a.parquet", {"id": pa.array([1], pa.int32()), "name": ["a"]})
    write(tmp_path / "b.PARQUET", {"name": pa.array(["b"]).dictionary_encode(), "id": [2]})
    with pa.OSFile(str(tmp_path / "c.arrow"), "wb") as out:
        third = pa.record_batch({"name": pa.array(["c"], pa.large_string()), "id": [None]})
        with pa.ipc.new_file(out, third.schema) as writer:
            writer.write_batch(third)

    assert await share(FileSource(tmp_path)) == [(1, "a"), (2, "b"), (None, "c")]
    assert await share(FileSource(tmp_path), 1, 2) == [(2, "b")]
    assert (await share(FileSource(tmp_path, records="dict")))[1] == {"id": 2, "name": "b"}
    read = pa.Table.from_batches(await share(FileSource(tmp_path, records="batch")))
    assert read.schema.types == [pa.int32(), pa.string()]
    assert read.to_pydict() == {"id": [1, 2, None], "name": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1]}, "has the columns id, but"),
        ({"id": [1], "town": ["a"]}, "has the columns id, town, but"),
        ({"id": [1], "name": ["a"], "more": [1]}, "has the columns id, name, more, but"),
        ({"id": [1.5], "name": ["a"]}, "has the type double, but in"),
        ({"id": [1], "name": [b"a"]}, "has the type binary, but in"),
    ],
)
async def test_files_with_other_columns_are_not_mixed(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    first = write(tmp_path / "a.parquet", {"id": [1], "name": ["a"]})
    second = write(tmp_path / "b.parquet", columns)
    for records in ("tuple", "dict", "batch"):
        with pytest.raises(JobFailedError) as raised:
            await share(FileSource(tmp_path, records=records))
        assert message in str(raised.value)
        assert f"{second}" in str(raised.value)
        assert f"{first}" in str(raised.value)
    if "more" in columns:
        assert await share(FileSource(tmp_path, columns=["name", "id"])) == [("a", 1)] * 2


async def test_batches_with_a_value_that_the_first_files_type_cannot_hold(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"id": pa.array([1], pa.int8())})
    second = write(tmp_path / "b.parquet", {"id": [7, 300]})
    with pytest.raises(JobFailedError, match=f"{second}, row 2, column 'id': 300 is not exactly"):
        await share(FileSource(tmp_path, records="batch"))
    assert await share(FileSource(tmp_path)) == [(1,), (7,), (300,)]


async def test_two_columns_of_one_name(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table([[1], ["x"], [2]], names=["id", "name", "id"]), file)
    assert await share(FileSource(file)) == [(1, "x", 2)]
    for options in ({"records": "dict"}, {"columns": ["id"]}):
        with pytest.raises(JobFailedError, match=f"{file} has two columns with the name 'id'"):
            await share(FileSource(file, **options))


@pytest.mark.parametrize(
    ("kind", "good", "bad", "shown"),
    [
        (pa.timestamp("ms"), 0, 253402300800000, "10000-01-01 00:00:00"),
        (pa.date32(), 0, 10_000_000, "column 'value'"),
        (pa.timestamp("ns"), 1_000, 1_001, "00:00:00.000001001"),
        (pa.duration("ns"), 1_000, 1_001, "1001"),
        (pa.time64("ns"), 1_000, 1_001, "00:00:00.000001001"),
        (pa.duration("s"), 1, 2**62, "4611686018427387904"),
    ],
    ids=str,
)
async def test_a_value_that_python_has_not(
    tmp_path: Path, kind: pa.DataType, good: int, bad: int, shown: str
) -> None:
    """The values have the same type with and without pandas.

    The error names the row of a value that Python cannot represent.
    """
    rows = SOURCE_BATCH_ROWS + BATCH_RECORDS + 2
    file = write(tmp_path / "a.parquet", {"value": pa.array([good] * rows + [bad], kind)})
    records = FileSource(file).read_share(context())
    first = next(records)[0][0]
    assert type(first).__module__ == "datetime"
    with pytest.raises(ValueError, match=f"row {rows + 1}, column 'value'") as raised:
        list(records)
    assert str(raised.value).startswith(f"{file}, ")
    assert shown in str(raised.value)
    with pytest.raises(ValueError, match=f"row {rows + 1}, column 'value'"):
        list(FileSource(file, records="dict").read_share(context()))
    batches = await share(FileSource(file, records="batch"))
    assert sum(batch.num_rows for batch in batches) == rows + 1


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("split", ["file", "part"])
async def test_a_damaged_file_is_named(
    tmp_path: Path, parquet: Path, arrow: Path, suffix: str, split: Literal["file", "part"]
) -> None:
    """It may be empty, cut off at the start or the end, or of another kind, and need not be the
    first file."""
    whole = (parquet / "a.parquet" if suffix == "parquet" else arrow).read_bytes()
    directory = tmp_path / "damaged"
    directory.mkdir()
    (directory / f"a.{suffix}").write_bytes(whole)
    bad = directory / f"bad.{suffix}"
    for content in (b"", whole[:-8], whole[8:], b"id,name\n1,a\n"):
        bad.write_bytes(content)
        with pytest.raises(JobFailedError, match=f"UnreadableError: {bad}: "):
            await share(FileSource(directory, split=split))


async def test_without_pyarrow(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FileSource(parquet)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(ConfigurationError, match=r'"tested" .* pyarrow: install flinknet\[arrow\]'):
        await share(source)

"""Arrow and Parquet files as sources and sinks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinknet.datastream import CommitContext, Committer, FileSource, ParquetSink
from flinknet.datastream.connectors.arrow_files import (
    ROW_GROUP_ROWS,
    SOURCE_BATCH_ROWS,
    SOURCE_RECORD_BATCH_ROWS,
)
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.task.mailbox import Mailbox
from flinknet.task.operators import BATCH_RECORDS
from flinknet.task.sink import SinkOperator
from flinknet.task.source import SourceOperator
from tests.unit.task.harness import Harness, context


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
    """Two files with 30 and 20 rows in row groups of 10."""
    directory = tmp_path / "in"
    (directory / "day=2").mkdir(parents=True)
    pq.write_table(table(0, 30), directory / "a.parquet", row_group_size=10)
    pq.write_table(table(30, 20), directory / "day=2" / "b.parquet", row_group_size=10)
    (directory / "_SUCCESS").touch()
    (directory / ".a.parquet.crc").touch()
    return directory


@pytest.fixture
def arrow(tmp_path: Path) -> Path:
    """One Arrow IPC file of 30 rows in record batches of 10."""
    file = tmp_path / "in.arrow"
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, table(0, 1).schema) as writer:
        writer.write_table(table(0, 30), max_chunksize=10)
    return file


async def share(source: FileSource, index: int = 0, parallelism: int = 1) -> list[Any]:
    place = context(index=index, parallelism=parallelism)
    async with Harness(SourceOperator(source), place) as harness:
        await harness.operator.run(Mailbox("tested", 1))  # type: ignore[attr-defined]
        return harness.records


async def test_records_of_parquet_files(parquet: Path) -> None:
    """All files below a directory, without those that Spark and Hadoop keep for themselves."""
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
    """However large the row groups of a file are, and without those that have no row."""
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
        ("table.csv", "table.csv is of an unknown kind"),
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

    with pytest.raises(JobFailedError, match="failed after 0 records: ArrowInvalid"):
        await share(FileSource(tmp_path))


# -- the Parquet sink ----------------------------------------------------------------------------


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
    """Without what readers pass over."""
    return sorted(file.name for file in path.iterdir() if file.name[0] not in "._")


def staged_below(path: Path) -> list[str]:
    return sorted(file.name for file in path.glob(".out.*/*"))


def commit(path: Path, *harnesses: Harness) -> None:
    """Commit what the subtasks of a job have prepared, as a worker does in the end."""
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
        with pytest.raises(JobFailedError, match=r"failed in finish.*: ArrowInvalid"):
            await harness.end_of_input()

    assert files(tmp_path) == []


def batch(start: int, rows: int) -> pa.RecordBatch:
    (only,) = table(start, rows).to_batches()
    return only


async def test_record_batches_are_written_with_the_sinks_columns(tmp_path: Path) -> None:
    """Chosen by name, in the sink's order, cast to the sink's types."""
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
    """As of the first rows: the types, and not what else a schema says."""
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
            "type RecordBatch, with 1 rows: ArrowInvalid: Float",
        ),
        ([pa.record_batch({"id": [[1]], "name": ["a"]})], "ArrowNotImplementedError"),
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
    with pytest.raises(ConfigurationError, match=r'sink "tested": .* holds mine.parquet, which no'):
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


async def test_without_pyarrow(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FileSource(parquet)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(ConfigurationError, match=r'"tested" .* pyarrow: install flinknet\[arrow\]'):
        await share(source)
    other = sink(tmp_path)
    with pytest.raises(ConfigurationError, match="needs pyarrow"):
        await other.operator.open(other.context)

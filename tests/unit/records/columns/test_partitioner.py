from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from flinknet.errors import ConfigurationError, LocalProtocolError, SerializationError
from flinknet.records.columns.partitioner import ColumnHashPartitioner
from flinknet.records.columns.record_batch import read_batch
from flinknet.records.key_groups import key_group
from flinknet.records.partitioner import (
    AdaptiveRebalancePartitioner,
    BroadcastPartitioner,
    ForwardPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.records.writer import RecordWriter
from tests.unit.arrangements import (
    Flusher,
    Running,
    assert_everything_returned,
    content_of,
    make_partition,
    run,
    view_of,
    wait,
)
from tests.unit.records.columns.arrow_batches import COLUMNS, batch_of, content_of_batch

KIB = 1024


def set_up(channels: int, *columns: str, max_parallelism: int = 128) -> ColumnHashPartitioner:
    partitioner = ColumnHashPartitioner(*columns, max_parallelism=max_parallelism)
    partitioner.setup(channels)
    return partitioner


def set_up_records(columns: int) -> HashPartitioner:
    """Return a partitioner of tuples, with as many fields as there are columns."""
    partitioner = HashPartitioner(lambda row: row[0] if columns == 1 else row)
    partitioner.setup(64)
    return partitioner


def numbered(rows: int, *, first: int = 0) -> pa.RecordBatch:
    """Return rows with a number, and keys of several types that follow from it."""
    numbers = np.arange(first, first + rows)
    return pa.record_batch(
        {
            "number": numbers,
            "key": numbers * 7919 % 101,
            "text": pa.array([f"key {number % 13}" for number in numbers]),
            "kind": pa.array([f"kind {number % 5}" for number in numbers]).dictionary_encode(),
            "share": numbers % 17 / 2,
        }
    )


# -- where rows go ---------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2, 3, 8, 128])
@pytest.mark.parametrize(
    "columns", [("key",), ("text",), ("kind",), ("share",), ("key", "kind"), ("share", "text")]
)
def test_rows_go_where_a_record_with_their_key_goes(
    channels: int, columns: tuple[str, ...]
) -> None:
    """Every row goes to one channel once, and each channel keeps the order of the rows."""
    batch = numbered(1_000)[100:]
    of_records = HashPartitioner(
        lambda row: row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns)
    )
    of_records.setup(channels)
    parts = set_up(channels, *columns).cut(batch)
    rows = batch.to_pylist()
    expected = {
        channel: [row for row in rows if of_records.select(row) == channel]
        for channel in range(channels)
    }
    assert {channel: part.to_pylist() for channel, part in parts.items()} == {
        channel: share for channel, share in expected.items() if share
    }
    for part in parts.values():
        part.validate(full=True)
        assert part.schema.equals(batch.schema, check_metadata=True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The keys for which a group was computed."""
    keys: list[Any] = []

    def noted(key: Any, max_parallelism: int) -> int:
        keys.append(key)
        return key_group(key, max_parallelism)

    monkeypatch.setattr("flinknet.records.columns.partitioner.key_group", noted)
    return keys


def test_the_channel_of_a_text_is_remembered(asked: list[Any]) -> None:
    """A change of the channels ends this."""
    partitioner = set_up(8, "text", "kind")
    first = partitioner.cut(numbered(1_000))
    assert len(asked) == len(set(asked)) == 13 * 5
    again = partitioner.cut(numbered(1_000))
    assert len(asked) == 13 * 5
    assert {channel: part.to_pylist() for channel, part in again.items()} == {
        channel: part.to_pylist() for channel, part in first.items()
    }
    partitioner.setup(5)
    assert set(partitioner.cut(numbered(1_000))) == set(range(5))
    assert len(asked) == 2 * 13 * 5


def test_the_cache_is_bounded(asked: list[Any]) -> None:
    partitioner = set_up(8, "text")
    partitioner.remember_at_most(0)
    first, again = (partitioner.cut(numbered(1_000)) for _ in range(2))
    assert len(asked) == 2 * 13
    assert list(first) == list(again)


@pytest.mark.parametrize("max_parallelism", [4, 5, 128, 1_000, 32_768])
def test_any_number_of_key_groups(max_parallelism: int) -> None:
    batch = numbered(300)
    of_records = HashPartitioner(lambda key: key, max_parallelism)
    of_records.setup(4)
    parts = set_up(4, "key", max_parallelism=max_parallelism).cut(batch)
    for channel, part in parts.items():
        assert {of_records.select(key) for key in part["key"].to_pylist()} == {channel}
    assert sum(part.num_rows for part in parts.values()) == 300


def test_rows_of_one_channel_stay_the_batch_that_they_are() -> None:
    """The batch is not copied."""
    batch = numbered(100)
    (alone,) = set_up(1, "key").cut(batch).values()
    assert alone is batch
    same_key = batch.filter(pa.compute.equal(batch["key"], 5))
    one_row = batch[7:8]
    for given in (same_key, one_row):
        (part,) = set_up(8, "key").cut(given).values()
        assert part is given


def test_a_batch_without_rows_goes_nowhere() -> None:
    batch = numbered(10)[:0]
    assert set_up(1, "key").cut(batch) == {}
    assert set_up(4, "key", "text").cut(batch) == {}


def test_columns_of_every_type_are_cut_with_their_rows() -> None:
    """The exceptions are types that Arrow cannot reorder; the error names them."""
    key = pa.array([1, 2, 3, 4])
    for name, column in COLUMNS.items():
        batch = pa.record_batch([key, column], ["key", "column"])
        partitioner = set_up(16, "key")
        try:
            pa.RecordBatch.take(batch, pa.array([0]))
        except pa.ArrowNotImplementedError:
            with pytest.raises(SerializationError, match="batch cannot be split: ") as refused:
                partitioner.cut(batch)
            assert f"types int64, {column.type}" in str(refused.value)
        else:
            parts = partitioner.cut(batch)
            assert len(parts) > 1
            for part in parts.values():
                for index, number in enumerate(part["key"].to_pylist()):
                    assert part[1][index : index + 1].equals(column[number - 1 : number]), name


def test_parts_keep_the_metadata() -> None:
    batch = numbered(50).replace_schema_metadata({"origin": "here"})
    for part in set_up(4, "key").cut(batch).values():
        assert part.schema.metadata == {b"origin": b"here"}
        assert read_batch(content_of_batch(part)).equals(part, check_metadata=True)


def test_it_can_be_set_up_again() -> None:
    partitioner = set_up(4, "key")
    assert len(partitioner.cut(numbered(100))) == 4
    partitioner.setup(2)
    assert partitioner.channels == len(partitioner.cut(numbered(100))) == 2


# -- refused keys ----------------------------------------------------------------------------------


def test_it_needs_a_column() -> None:
    with pytest.raises(ConfigurationError, match="needs at least one column name"):
        ColumnHashPartitioner()


def test_it_needs_a_key_group_for_every_channel() -> None:
    with pytest.raises(ConfigurationError, match="5 subtasks has only 4 key groups"):
        set_up(5, "key", max_parallelism=4)
    with pytest.raises(ConfigurationError, match="129 subtasks has only 128 key groups"):
        set_up(129, "key")


@pytest.mark.parametrize("record", [1, None, {"key": 1}, (1, 2), pa.table({"key": [1]})])
def test_only_batches_are_cut(record: object) -> None:
    with pytest.raises(SerializationError, match=f"not a record of type {type(record).__name__}"):
        set_up(2, "key").cut(record)


def test_a_key_column_must_be_there_once() -> None:
    partitioner = set_up(2, "key")
    with pytest.raises(SerializationError, match='no columns "key".* its columns are a, b'):
        partitioner.cut(pa.record_batch({"a": [1], "b": [2]}))
    column = pa.array([1])
    with pytest.raises(SerializationError, match='2 columns "key".* are key, b, key'):
        partitioner.cut(pa.record_batch([column] * 3, ["key", "b", "key"]))


@pytest.mark.parametrize("columns", [("key",), ("key", "other")])
def test_null_is_a_key(columns: tuple[str, ...]) -> None:
    """Spark, pandas and Arrow do so, too. Its rows go where records with the key None go."""
    batch = pa.record_batch({"key": [1, None, 2, None], "other": [1, None, 2, None]})
    of_records = set_up_records(len(columns))
    for channel, part in set_up(64, *columns).cut(batch).items():
        for row in part.to_pylist():
            assert of_records.select(tuple(row[name] for name in columns)) == channel


def test_it_cuts_and_does_not_select() -> None:
    with pytest.raises(AssertionError, match="does not select"):
        set_up(2, "key").select(numbered(1))
    for partitioner in (ForwardPartitioner(), RebalancePartitioner(), BroadcastPartitioner()):
        assert not partitioner.cuts_records
        with pytest.raises(AssertionError, match="does not split records"):
            partitioner.cut(numbered(1))


# -- through a writer ------------------------------------------------------------------------------


class Columns:
    """A writer of batches over a partition with its readers."""

    def __init__(
        self,
        subpartitions: int,
        partitioner: Partitioner,
        *,
        segments: int = 2_000,
        segment_bytes: int = KIB,
        record_bytes_max: int = 1 << 20,
        record_elements_max: int = 1 << 16,
    ) -> None:
        self.partition, self.pool = make_partition(
            subpartitions,
            segments=segments,
            segment_bytes=segment_bytes,
            overdraft_buffers_per_partition=0,
            floating_buffers_per_gate=segments // 2,
            buffers_per_subpartition_max=segments,
        )
        self.writer = RecordWriter(
            self.partition,
            partitioner,
            wait=wait,
            flusher=Flusher(),
            buffer_timeout_ms=-1,
            record_bytes_max=record_bytes_max,
            record_elements_max=record_elements_max,
        )
        self.views = [view_of(self.partition, index) for index in range(subpartitions)]
        self.streams = [
            msgpack.Unpacker(use_list=False, ext_hook=lambda code, data: read_batch(data))
            for _ in range(subpartitions)
        ]

    def take(self, index: int, *, buffers: int = 10_000) -> list[Any]:
        """Take buffers; return the records that are complete."""
        taken: list[Any] = []
        while buffers and (polled := self.views[index].poll()) is not None:
            buffers -= 1
            self.streams[index].feed(content_of(polled.buffer))
            polled.buffer.recycle()
            taken.extend(self.streams[index])
        return taken

    def take_all(self) -> list[list[Any]]:
        """Take everything from all channels."""
        self.writer.flush()
        return [self.take(index) for index in range(len(self.views))]

    def close(self) -> None:
        self.writer.close()
        self.partition.release()
        assert_everything_returned(self.pool)


WAYS = ["one by one", "many", "in a generator"]


def emit(writer: RecordWriter, records: list[Any], way: str) -> None:
    if way == "one by one":
        for record in records:
            run(writer.emit(record))
    else:
        run(writer.emit_many(records if way == "many" else (record for record in records)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [1, 20, 4_000])
def test_a_writer_cuts_batches(way: str, rows: int) -> None:
    """This holds for batches shorter than a buffer and longer than many.

    Each row arrives once, in the order of its channel.
    """
    columns = Columns(3, ColumnHashPartitioner("key"))
    batches = [numbered(rows, first=rows * number) for number in range(3)]
    emit(columns.writer, batches, way)
    expected = set_up(3, "key")
    cuts = [expected.cut(batch) for batch in batches]
    assert columns.take_all() == [[cut[n] for cut in cuts if n in cut] for n in range(3)]
    assert columns.writer.records_out == sum(map(len, cuts)), "parts, each of which is a record"
    columns.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [1, 2_000])
def test_batches_go_through_any_partitioner(way: str, rows: int) -> None:
    """They come among other records, and large ones come after small ones and before them."""
    batches = [numbered(rows), numbered(rows * 2), batch_of("dictionary", "strings")]
    records = [1, batches[0], "text", *[7] * 20, batches[1], batches[2], b"x" * 20_000, batches[0]]
    one = Columns(1, ForwardPartitioner())
    emit(one.writer, records, way)
    assert one.take_all() == [records]
    all_ = Columns(3, BroadcastPartitioner())
    emit(all_.writer, records, way)
    assert all_.take_all() == [records] * 3
    turns = Columns(2, RebalancePartitioner())
    emit(turns.writer, records, way)
    assert turns.take_all() == [records[::2], records[1::2]]
    load = Columns(2, AdaptiveRebalancePartitioner())
    emit(load.writer, records, way)
    taken = load.take_all()
    assert sum(map(len, taken)) == len(records)
    for columns in (one, all_, turns, load):
        assert columns.writer.records_out == len(records)
        columns.close()


def test_a_batch_is_broadcast_past_a_partitioner_that_cuts() -> None:
    columns = Columns(3, ColumnHashPartitioner("key"))
    batch = numbered(50)
    run(columns.writer.broadcast_emit(batch))
    run(columns.writer.broadcast_emit("text"))
    assert columns.take_all() == [[batch, "text"]] * 3
    columns.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_batch_is_not_written(way: str) -> None:
    """No part of it is written. The records before and behind it are."""
    columns = Columns(2, ColumnHashPartitioner("key"))
    good = pa.record_batch({"key": [1, 1]})
    for refused in (pa.record_batch({"key": [{"a": 1}]}), pa.record_batch({"a": [1]}), 5):
        with pytest.raises(SerializationError):
            emit(columns.writer, [good, refused], way)
    emit(columns.writer, [good], way)
    assert sorted(map(len, columns.take_all())) == [0, 4]
    columns.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("before", [[], [b"x" * 20_000]], ids=["at first", "after large bytes"])
def test_a_batch_over_the_limit_is_not_written(way: str, before: list[Any]) -> None:
    columns = Columns(1, ForwardPartitioner(), record_bytes_max=30_000)
    emit(columns.writer, before, way)
    with pytest.raises(SerializationError, match="record_bytes_max"):
        emit(columns.writer, [numbered(5_000)], way)
    emit(columns.writer, ["behind"], way)
    assert columns.take_all() == [[*before, "behind"]]
    columns.close()


class Parts(Partitioner):
    """Cuts a list into its elements, one for each channel."""

    cuts_records = True

    def select(self, record: Any) -> int:
        raise AssertionError("it cuts")

    def cut(self, record: Any) -> dict[int, Any]:
        return dict(enumerate(record))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("part", "says"),
    [
        (object(), "type object cannot be serialised"),
        (b"x" * 30_000, "record_bytes_max"),
        ("x" * 30_000, "record_bytes_max"),
        (numbered(3_000), "record_bytes_max"),
        ([0] * 2_000, "record_elements_max"),
    ],
    ids=["no record", "long bytes", "long text", "long batch", "many elements"],
)
def test_a_part_that_is_refused_keeps_the_others_back(way: str, part: object, says: str) -> None:
    """This holds even if it is the last part. The records cut before and behind are written."""
    columns = Columns(
        3, Parts(), segment_bytes=KIB, record_bytes_max=20_000, record_elements_max=KIB
    )
    with pytest.raises(SerializationError, match=says):
        emit(columns.writer, [[1, 2, 3], ["a", numbered(100), part]], way)
    emit(columns.writer, [[4, (5,), b"y" * 18_000]], way)
    assert columns.take_all() == [[1, 4], [2, (5,)], [3, b"y" * 18_000]]
    assert columns.writer.records_out == 6
    columns.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_is_written_if_all_of_its_parts_are(way: str) -> None:
    """One part has nearly all rows.

    With its schema it exceeds the limit, although the columns of the batch do not.
    """
    partitioner = ColumnHashPartitioner("number")
    keys = np.repeat(np.array([5, 6, 7, 8]), [1, 1, 1, 1_000])
    batch = pa.record_batch({"number": keys}).replace_schema_metadata({"long": "x" * 2_000})
    columns = Columns(2, partitioner, record_bytes_max=9_000)
    parts = partitioner.cut(batch)
    assert batch.get_total_buffer_size() < 9_000
    assert sorted(len(content_of_batch(part)) > 9_000 for part in parts.values()) == [False, True]
    with pytest.raises(SerializationError, match=r"has \d+ bytes when serialised.* is 9000"):
        emit(columns.writer, [batch], way)
    assert columns.take_all() == [[], []]
    assert columns.writer.records_out == 0
    columns.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_over_the_limit_is_not_cut(way: str) -> None:
    """Its parts would be within the limit. A slice of a longer batch counts with its own bytes."""
    columns = Columns(4, ColumnHashPartitioner("number"), record_bytes_max=9_000)
    batch = pa.record_batch({"number": range(2_000)})
    with pytest.raises(
        SerializationError, match=r"to split has 16\d\d\d bytes; the limit is 9000 \(record_bytes"
    ):
        emit(columns.writer, [batch], way)
    assert columns.take_all() == [[]] * 4
    emit(columns.writer, [batch[:1_000], batch[1_000:]], way)
    assert sum(part.num_rows for taken in columns.take_all() for part in taken) == 2_000
    columns.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_that_arrow_cannot_write_is_not_written(way: str) -> None:
    deep = pa.array([1])
    for _ in range(70):
        deep = pa.StructArray.from_arrays([deep], ["a"])
    batch = pa.record_batch([pa.array([1]), deep], ["key", "deep"])
    for partitioner in (ColumnHashPartitioner("key"), ForwardPartitioner()):
        columns = Columns(1, partitioner)
        with pytest.raises(SerializationError, match="batch cannot be serialised"):
            emit(columns.writer, [numbered(3), batch], way)
        emit(columns.writer, [numbered(5)], way)
        assert columns.take_all() == [[numbered(3), numbered(5)]]
        columns.close()


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_a_writer_that_waits_between_the_parts_of_a_batch(many: bool) -> None:
    """The pool is smaller than the batch. A reader that takes a buffer lets the writer go on."""
    columns = Columns(2, ColumnHashPartitioner("key"), segments=6)
    batch = numbered(2_000)
    writer = columns.writer
    emitting = Running(writer.emit_many([batch, batch]) if many else writer.emit(batch))
    taken: list[list[Any]] = [[], []]
    waits = 0
    while not emitting.done:
        waits += 1
        for index, records in enumerate(taken):
            records += columns.take(index, buffers=1)
        emitting.go_on()
    assert waits > 10
    parts = set_up(2, "key").cut(batch)
    rest = columns.take_all()
    for index, records in enumerate(taken):
        assert records + rest[index] == [parts[index]] * (2 if many else 1)
    columns.close()


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_cancelling_between_two_parts_leaves_whole_records(many: bool) -> None:
    """The parts of this batch fit a buffer.

    Some are written and some are not, none is torn, and the writer goes on.
    """
    columns = Columns(8, ColumnHashPartitioner("number"), segments=9, segment_bytes=4 * KIB)
    batch = pa.record_batch({"number": range(1_500), "text": ["x"] * 1_500})
    parts = set_up(8, "number").cut(batch)
    assert max(len(content_of_batch(part)) for part in parts.values()) < 4 * KIB
    writer = columns.writer
    emitting = Running(writer.emit_many([batch] * 3) if many else writer.emit(batch))
    if emitting.done:
        emitting = Running(writer.emit(batch))
    assert emitting.waits_for is not None
    emitting.cancel()
    written = columns.take_all()
    assert 0 < sum(map(len, written)) == writer.records_out
    for index, records in enumerate(written):
        assert records == [parts[index]] * len(records)
    run(writer.emit(batch))
    assert columns.take_all() == [[parts[index]] for index in range(8)]
    columns.close()


def test_cancelling_inside_a_long_part_is_told() -> None:
    """This is as for any record longer than a buffer: no record can follow a torn one."""
    columns = Columns(2, ColumnHashPartitioner("key"), segments=6)
    emitting = Running(columns.writer.emit(numbered(2_000)))
    assert not emitting.done
    emitting.cancel()
    with pytest.raises(LocalProtocolError, match="cut off by a cancellation"):
        run(columns.writer.emit(numbered(2_000)))
    assert columns.take_all() == [[], []]
    columns.close()


def test_the_caller_may_reuse_the_memory_of_a_batch() -> None:
    """All bytes are in buffers when ``emit`` has returned."""
    numbers = np.arange(3_000)
    for partitioner in (ForwardPartitioner(), ColumnHashPartitioner("number")):
        columns = Columns(1, partitioner)
        numbers[:] = np.arange(3_000)
        run(columns.writer.emit(pa.record_batch({"number": pa.array(numbers)})))
        numbers[:] = 0
        ((taken,),) = columns.take_all()
        assert taken["number"].to_pylist() == list(range(3_000))
        columns.close()

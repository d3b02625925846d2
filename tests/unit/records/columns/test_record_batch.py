from __future__ import annotations

import subprocess
import sys
from random import Random
from struct import Struct
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from flinknet.errors import SerializationError
from flinknet.records.columns import record_batch as arrow
from flinknet.records.columns.record_batch import batch_pieces, columns_bytes, read_batch
from flinknet.records.serialization.large_record import large_form
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import (
    UNPACK_ERRORS,
    RecordDeserializer,
)
from tests.traced_memory import traced_memory
from tests.unit.records.columns.arrow_batches import (
    BARE,
    COLUMNS,
    bare_batch,
    batch_of,
    compressed,
    content_of_batch,
    metadata_at,
    stream_of,
)
from tests.unit.records.columns.cutting import (
    KIB,
    cut,
    cut_packed,
    make_deserializer,
    make_memory,
    make_unpacker,
    read_all,
)

every_kind = pytest.mark.parametrize("name", COLUMNS)


def is_same(arrived: pa.RecordBatch, sent: pa.RecordBatch) -> bool:
    """Return whether two batches are equal, with the metadata of their schemas and fields."""
    return bool(arrived.equals(sent, check_metadata=True)) and arrived.schema.equals(
        sent.schema, check_metadata=True
    )


# -- round trips -----------------------------------------------------------------------------------


@every_kind
def test_a_column_of_every_type_arrives(name: str) -> None:
    """This covers the whole column, a part from its middle, a single row, and no row."""
    batch = batch_of(name)
    for part in (batch, batch[1:3], batch[3:], batch[:0]):
        arrived = read_batch(content_of_batch(part))
        assert is_same(arrived, part)
        assert arrived.to_pylist() == part.to_pylist() or name == "nulls"


def test_all_columns_together_arrive() -> None:
    batch = batch_of()
    assert is_same(read_batch(content_of_batch(batch)), batch)


@pytest.mark.parametrize("rows", [0, 5])
def test_a_batch_without_columns_arrives(rows: int) -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    arrived = read_batch(content_of_batch(batch))
    assert (arrived.num_rows, arrived.num_columns) == (rows, 0)


@pytest.mark.parametrize("column", ["integers", "dictionary"])
def test_metadata_arrives(column: str) -> None:
    """It includes the metadata of the schema and of its fields.

    Batches that differ only in metadata are not mixed up.
    """
    batch = batch_of(column)
    field = batch.schema.field(0).with_metadata({"unit": "ms"})
    batches = [
        batch,
        batch.replace_schema_metadata({"origin": "here"}),
        batch.replace_schema_metadata({"origin": "there"}),
        pa.record_batch([batch.column(0)], schema=pa.schema([field])),
    ]
    for sent in (*batches, *reversed(batches)):
        assert is_same(read_batch(content_of_batch(sent)), sent)


def test_the_bytes_on_the_wire_are_an_arrow_stream() -> None:
    """Any Arrow library can read it."""
    for name in ("integers", "dictionary"):
        batch = batch_of(name)
        with ipc.open_stream(content_of_batch(batch)) as reader:
            assert is_same(reader.read_next_batch(), batch)
            with pytest.raises(StopIteration):
                reader.read_next_batch()


def test_a_stream_with_its_end_is_read_too() -> None:
    """Another library may write the end of the stream."""
    for batch in (batch_of("strings", "lists"), batch_of()):
        assert is_same(read_batch(stream_of(batch)), batch)


def test_only_the_rows_of_a_part_are_sent() -> None:
    whole = pa.record_batch([pa.array(range(100_000)), pa.array(["x" * 9] * 100_000)], ["a", "b"])
    assert len(content_of_batch(whole[500:510])) < KIB
    assert len(content_of_batch(batch_of("dictionary")[:1])) < KIB


def test_the_columns_are_not_copied_when_they_are_read() -> None:
    batch = pa.record_batch([pa.array(np.zeros(1_000_000))], ["a"])
    content = content_of_batch(batch)
    with traced_memory() as memory:
        before = pa.total_allocated_bytes()
        arrived = read_batch(content)
        assert memory.peak < 100 * KIB
    assert pa.total_allocated_bytes() - before < 100 * KIB
    address = np.frombuffer(content, np.uint8).ctypes.data
    assert address < arrived.column(0).buffers()[1].address < address + len(content)


def test_a_batch_outlives_everything_that_it_was_made_of() -> None:
    batch = batch_of("strings", "dictionary")
    arrived = [read_batch(content_of_batch(batch)) for _ in range(50)]
    assert all(is_same(each, batch) for each in arrived)


# -- schemas ---------------------------------------------------------------------------------------


@pytest.fixture
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow._Memory, "read", {})
    monkeypatch.setattr(arrow._Memory, "written", None)


@pytest.mark.usefixtures("nothing_remembered")
def test_schemas_in_turn_do_not_mix() -> None:
    """They have equal rows and other names, other types or another order of the columns."""
    column = pa.array([1, 2])
    batches = [
        pa.record_batch([column, column], ["a", "b"]),
        pa.record_batch([column, column], ["b", "a"]),
        pa.record_batch([column.cast(pa.uint64()), column], ["a", "b"]),
        pa.record_batch([column.dictionary_encode(), column], ["a", "b"]),
        pa.record_batch([column.cast(pa.timestamp("s")), column], ["a", "b"]),
    ]
    contents = [content_of_batch(batch) for batch in batches * 3]
    for content, batch in zip(contents, batches * 3, strict=True):
        assert is_same(read_batch(content), batch)
    assert len(arrow._Memory.read) == len(batches)


@pytest.mark.usefixtures("nothing_remembered")
def test_the_memory_of_schemas_is_bounded() -> None:
    """This holds for any number of schemas. Schemas that are too long are read but not kept."""
    for number in range(300):
        batch = pa.record_batch([pa.array([number])], [f"column {number}"])
        assert is_same(read_batch(content_of_batch(batch)), batch)
        assert 0 < len(arrow._Memory.read) <= arrow._SCHEMAS_MAX
    for number, size in enumerate((100_000, 300_000, 500_000) * 4):
        described = batch_of("integers").replace_schema_metadata({f"{number}": "x" * size})
        assert is_same(read_batch(content_of_batch(described)), described)
        assert size < sum(map(len, arrow._Memory.read)) <= arrow._SCHEMAS_BYTES_MAX
    known = dict(arrow._Memory.read)
    described = batch_of("integers").replace_schema_metadata({"long": "x" * (1 << 20)})
    for _ in range(2):
        assert is_same(read_batch(content_of_batch(described)), described)
        assert arrow._Memory.read == known


@pytest.mark.usefixtures("nothing_remembered")
def test_a_refused_batch_does_not_spoil_the_cache() -> None:
    batch = batch_of("strings")
    content = content_of_batch(batch)
    for refused in (content[:-8], content[:200], content[:8]):
        with pytest.raises(ValueError, match="cannot be read as an Arrow record batch: "):
            read_batch(refused)
        assert is_same(read_batch(content), batch)


# -- refused contents ------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("names", [("integers",), ("dictionary",), ()], ids=len)
def test_a_compressed_batch_is_refused(codec: str, names: tuple[str, ...]) -> None:
    """A compressed batch, or dictionary, would determine by itself how much memory it takes."""
    with pytest.raises(
        ValueError, match="Arrow record batch: it is compressed; send it uncompressed"
    ):
        read_batch(compressed(batch_of(*names), codec))


def test_a_compressed_dictionary_before_a_batch_that_is_not_is_refused() -> None:
    batch = batch_of("dictionary")
    schema, _, plain = ipc.MessageReader.open_stream(stream_of(batch))
    _, dictionary, _ = ipc.MessageReader.open_stream(compressed(batch, "lz4"))
    content = b"".join(part.serialize().to_pybytes() for part in (schema, dictionary, plain))
    with pytest.raises(ValueError, match="it is compressed"):
        read_batch(content)


@pytest.mark.parametrize("names", [("unsigned",), ("unsigned", "dictionary")], ids=len)
def test_the_compression_of_an_old_version_is_refused(names: tuple[str, ...]) -> None:
    """Arrow 0.17 had it in the metadata of version 4, and Arrow still reads it: a few bytes become
    a MiB."""
    bomb = Struct("<q").pack(1 << 20) + pa.Codec("lz4").compress(bytes(1 << 20)).to_pybytes()
    batch = pa.record_batch({name: pa.concat_arrays([COLUMNS[name]] * 2000) for name in names})
    batch = batch.slice(0, len(bomb)).set_column(0, "bomb", pa.array(np.frombuffer(bomb, np.uint8)))
    content = stream_of(
        batch,
        metadata={"ARROW:experimental_compression": "lz4"},
        metadata_version=ipc.MetadataVersion.V4,
    )
    before = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match="a version before 5"):
        read_batch(content)
    assert pa.total_allocated_bytes() == before


def test_columns_in_the_same_place_are_refused() -> None:
    """A batch of many columns that share the same bytes would take far more time than its length
    suggests."""
    batch = pa.record_batch([pa.array(range(1000))] * 8, list("abcdefgh"))
    content = bytearray(content_of_batch(batch))
    start, end = metadata_at(content, 1)
    place = Struct("<qq")
    for number in range(8):
        written = place.pack(8000 * number, 8000)
        place.pack_into(content, content.rindex(written, start, end), 0, 64_000)
    with pytest.raises(ValueError, match="the same bytes more than once"):
        read_batch(bytes(content))


every_bare_kind = pytest.mark.parametrize("name", [*BARE, "no columns"])


@every_bare_kind
def test_a_few_bytes_do_not_claim_any_number_of_rows(name: str) -> None:
    """The limit includes the entries inside of the columns, and the writer checks it, too."""
    batch = bare_batch(name, 1 << 20)
    content = stream_of(batch)
    assert len(content) < KIB
    says = "entries in columns and inside them, in .* bytes; the limit for those is 65536: send"
    with pytest.raises(ValueError, match=f"cannot be read as an Arrow record batch: .*{says}"):
        read_batch(content)
    for write in (batch_pieces, RecordPacker().pack, large_form):
        with pytest.raises(SerializationError, match=f"batch cannot be serialised: .*{says}"):
            write(batch)


@every_bare_kind
def test_a_few_bytes_may_have_some_rows(name: str) -> None:
    batch = bare_batch(name, 20_000)
    arrived = read_batch(content_of_batch(batch))
    assert arrived.schema == batch.schema
    assert arrived.num_rows == batch.num_rows


@pytest.mark.parametrize("rows", [100, 1_000_000])
def test_columns_without_bytes_may_stand_beside_others(rows: int) -> None:
    """Six are allowed beside a column of booleans, hundreds beside some numbers, and any depth that
    Arrow supports."""
    beside = [pa.array([True] * rows), *[pa.nulls(rows)] * 6]
    sparse = [*[pa.array(np.arange(rows))] * 2, *[pa.nulls(rows)] * 600]
    deep = pa.array(np.zeros(rows))
    for _ in range(50):
        deep = pa.StructArray.from_arrays([deep], ["a"])
    for columns in (beside, sparse, [deep], [pa.array(np.zeros(rows, np.bool_))]):
        batch = pa.record_batch(columns, [str(number) for number in range(len(columns))])
        arrived = read_batch(content_of_batch(batch))
        assert (arrived.num_rows, arrived.schema) == (rows, batch.schema)


@pytest.mark.parametrize("rows", [0, 1, 1_000])
def test_the_bytes_of_columns_are_known_before_they_are_written(rows: int) -> None:
    """This includes parts of a batch, and unions without entries, with which Arrow's ``nbytes``
    crashes."""
    for batch in (long_batch(2_000)[5 : 5 + rows], batch_of()[:rows], batch_of("unions")[:rows]):
        arrived = read_batch(content_of_batch(batch))
        size = columns_bytes(arrived)
        assert size == columns_bytes(batch) == batch.serialize().size


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it does not begin with a schema"),
        (b"\xff\xff\xff", "it does not begin with a schema"),
        (bytes(8), "it does not begin with a schema"),
        (b"no arrow at all", "it does not begin with a schema"),
        (b"\xff\xff\xff\xff\x07\x00\x00\x00", "it does not begin with a schema"),
        (b"\xff\xff\xff\xff\x00\x00\x00\x00", "cannot be read as an Arrow record batch: "),
        (b"\xff\xff\xff\xff\xf8\xff\xff\xff", "cannot be read as an Arrow record batch: "),
        (
            b"\xff\xff\xff\xff\x08\x00\x00\x00" + bytes(8),
            "cannot be read as an Arrow record batch: ",
        ),
    ],
)
def test_bytes_other_than_a_batch_are_refused(content: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_batch(content)


@pytest.mark.parametrize("name", ["integers", "dictionary"])
def test_nothing_follows_a_batch(name: str) -> None:
    """A second batch would be lost, like anything else except the end of the stream."""
    batch = batch_of(name)
    content, more = content_of_batch(batch), batch.serialize().to_pybytes()
    for behind in (more, b"x", bytes(8), more + b"\xff\xff\xff\xff" + bytes(4)):
        with pytest.raises(ValueError, match="bytes follow the batch"):
            read_batch(content.removesuffix(b"\xff\xff\xff\xff" + bytes(4)) + behind)


@pytest.mark.parametrize("name", ["integers", "dictionary"])
def test_a_schema_alone_or_before_something_else_is_refused(name: str) -> None:
    schema = batch_of(name).schema.serialize().to_pybytes()
    for content in (schema, schema * 2, schema + bytes(8), schema + b"\xff\xff\xff\xff" + bytes(4)):
        with pytest.raises(ValueError, match="cannot be read as an Arrow record batch: "):
            read_batch(content)


def test_a_batch_of_another_schema_is_refused() -> None:
    """The content has more columns than the schema."""
    schema = batch_of("strings", "lists", "maps").schema.serialize().to_pybytes()
    with pytest.raises(ValueError, match="cannot be read as an Arrow record batch: "):
        read_batch(schema + batch_of("strings").serialize().to_pybytes())


@pytest.mark.parametrize("name", ["strings", "lists", "maps", "dictionary", "unions", "list views"])
@pytest.mark.parametrize("number", [-1, 1 << 20, 2**31 - 1])
def test_references_outside_of_the_content_are_refused(name: str, number: int) -> None:
    """Arrow would follow such offsets, sizes and indices. Each of them is changed by itself."""
    column = pa.array([["a"], ["b"]]) if name == "lists" else COLUMNS[name]
    batch = pa.record_batch([column], ["a"])
    content = content_of_batch(batch)
    body = len(content) - len(ipc.read_message(batch.serialize()).body)
    refused = 0
    for place in range(body, len(content), 4):
        changed = bytearray(content)
        changed[place : place + 4] = number.to_bytes(4, "little", signed=True)
        try:
            batch = read_batch(bytes(changed))
        except ValueError as error:
            refused += "cannot be read as an Arrow record batch: " in str(error)
        else:
            batch.to_pylist()
    assert refused


@every_kind
def test_a_content_that_ends_early_is_refused(name: str) -> None:
    """It may end at any byte before the last message is whole."""
    content = content_of_batch(batch_of(name))
    for size in range(0, len(content) - 8, 4):
        with pytest.raises(ValueError, match="cannot be read as an Arrow record batch: "):
            read_batch(content[:size])


def test_anything_else_is_a_batch_or_refused() -> None:
    """Contents are changed at random. Each gives a usable batch or a ValueError."""
    random = Random(17)
    contents = [content_of_batch(batch_of(name)) for name in COLUMNS]
    numbers = [0, 1, -1, 3, 8, 100, 2**31 - 1, -(2**31), 2**62]
    outcomes = {"a batch": 0, "refused": 0}
    for content in contents * 100:
        changed = bytearray(content)
        for _ in range(random.choice([1, 1, 2, 4])):
            place = random.randrange(len(changed))
            size = random.choice([1, 4, 8])
            place -= place % size
            number = random.choice(numbers) & (1 << 8 * size) - 1
            changed[place : place + size] = number.to_bytes(size, "little")
        try:
            batch = read_batch(bytes(changed))
        except ValueError as error:
            outcomes["refused"] += bool(str(error))
        else:
            batch.validate(full=True)
            content_of_batch(batch)
            outcomes["a batch"] += 1
    assert sum(outcomes.values()) == len(contents) * 100
    assert min(outcomes.values()) > 100


# -- among other records ---------------------------------------------------------------------------


def long_batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(rows)), pa.array(["x"] * rows)], ["number", "text"])


def test_a_batch_is_an_extension_of_type_127() -> None:
    """This holds through the packer and past it, for any length."""
    for batch in (batch_of("unsigned"), batch_of(), long_batch(10_000)):
        packed = RecordPacker().pack(batch)
        value = msgpack.unpackb(packed)
        assert (value.code, value.data) == (127, content_of_batch(batch))
        form = large_form(batch)
        assert form is not None
        assert msgpack.unpackb(b"".join(form)) == value


def test_a_batch_may_stand_inside_a_record() -> None:
    batch = batch_of("strings", "dictionary")
    data = RecordPacker().pack(("before", {"batch": batch}, [batch, 1]))
    for size in (100, 100_000):
        record = read_one(data, size)
        assert (record[0], record[2][1]) == ("before", 1)
        assert is_same(record[1]["batch"], batch)
        assert is_same(record[2][0], batch)


def read_one(data: bytes, segment_bytes: int) -> Any:
    """Read one record, cut into buffers of a given size."""
    (record,) = read_all(make_deserializer(), cut_packed([data], segment_bytes))
    return record


@pytest.mark.parametrize("rows", [0, 1, 100, 2_000, 30_000])
@pytest.mark.parametrize("record_spill_bytes", [500, 1 << 20], ids=["on disk", "in memory"])
def test_batches_among_other_records(rows: int, record_spill_bytes: int) -> None:
    """They may be cut anywhere, and reassembled in memory or on disk."""
    batch = long_batch(rows)
    records = [1, batch, "between", b"y" * 20_000, batch, batch, (2, 3)]
    for segment_bytes in (97, 4_000, 60_000, 1 << 20):
        memory = make_memory(record_spill_bytes=record_spill_bytes)
        arrived = read_all(make_deserializer(memory), cut(records, segment_bytes))
        assert len(arrived) == len(records)
        for one, other in zip(arrived, records, strict=True):
            assert type(one) is type(other)
            assert one == other
        assert memory.statistics().records == 0


@pytest.mark.parametrize("rows", [0, 10, 5_000])
@pytest.mark.parametrize("segment_bytes", [90, 5_000, 1 << 20])
def test_a_refused_batch_is_one_of_the_unpacker_s_errors(rows: int, segment_bytes: int) -> None:
    """The reader's error then names the channel, and its text gives the fault."""
    content = compressed(long_batch(rows), "lz4")
    broken = msgpack.packb(msgpack.ExtType(127, content[:-8]))
    deserializer = make_deserializer()
    with pytest.raises(UNPACK_ERRORS, match="cannot be read as an Arrow record batch: ") as refused:
        read_all(deserializer, cut_packed([broken], segment_bytes))
    assert isinstance(refused.value, ValueError)
    assert read_all(deserializer, cut([5], 10)) == [5]


def test_a_batch_is_under_the_limit_of_bytes() -> None:
    batch = long_batch(5_000)
    form = large_form(batch)
    assert form is not None
    head, content = form
    size = len(head) + len(content)
    RecordLimits(size, 10).check(content, head)
    with pytest.raises(SerializationError, match="record_bytes_max"):
        RecordLimits(size - 1, 10).check(content, head)
    for segment_bytes in (1_000, 1 << 20):
        memory = make_memory(record_bytes_max=size)
        unpacker = make_unpacker(record_bytes_max=size)
        (arrived,) = read_all(RecordDeserializer(unpacker, memory), cut([batch], segment_bytes))
        assert is_same(arrived, batch)
        memory = make_memory(record_bytes_max=size - 10)
        unpacker = make_unpacker(record_bytes_max=size - 10)
        with pytest.raises(UNPACK_ERRORS):
            read_all(RecordDeserializer(unpacker, memory), cut([batch], segment_bytes))


def test_a_batch_has_no_elements() -> None:
    """Its rows are not made into objects, so they do not count.

    The elements of the record around it do.
    """
    batch = long_batch(5_000)
    unpacker = make_unpacker(record_elements_max=10)
    for record in (batch, (1, batch), [batch] * 10):
        data = RecordPacker().pack(record)
        RecordLimits(1 << 20, 10).check(data)
        (arrived,) = read_all(RecordDeserializer(unpacker, make_memory()), cut([record], 3_000))
        assert arrived == (tuple(record) if isinstance(record, list) else record)
    with pytest.raises(SerializationError, match="record_elements_max"):
        RecordLimits(1 << 20, 10).check(RecordPacker().pack([batch] * 11))


def test_a_batch_that_arrow_cannot_write_is_explained() -> None:
    """It is nested deeper than Arrow supports, with and without a dictionary."""
    for column in (COLUMNS["integers"], COLUMNS["dictionary"]):
        for _ in range(70):
            column = pa.StructArray.from_arrays([column], ["a"])
        batch = pa.record_batch([column], ["a"])
        for write in (batch_pieces, columns_bytes, RecordPacker().pack, large_form):
            with pytest.raises(SerializationError, match="cannot be serialised: "):
                write(batch)


def test_an_object_only_named_like_a_record_batch_is_no_record() -> None:
    class RecordBatch:
        pass

    assert large_form(RecordBatch()) is None
    with pytest.raises(SerializationError, match="RecordBatch has no form on the wire"):
        RecordPacker().pack(RecordBatch())
    with pytest.raises(SerializationError, match="Table has no form on the wire"):
        RecordPacker().pack(pa.table({"a": [1]}))


# -- without the extra -----------------------------------------------------------------------------

WITHOUT_ARROW = """
import sys

sys.modules["pyarrow"] = None

import flinknet, flinknet.records.serialization.serializer as serializer
from flinknet.records.serialization.large_record import large_form
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import RecordPacker
from flinknet.config import NetworkConfig
from tests.traced_memory import traced_memory

unpacker = serializer.RecordUnpacker.of(NetworkConfig())
for data in (bytes([0xC7, 3, 127, 1, 2, 3]), bytes([0xC9, 0, 0, 128, 0, 127]) + bytes(32768)):
    behind_room = memoryview(bytearray(5) + data)
    for read in (lambda: unpacker.whole_records(behind_room, 5, len(behind_room), 1),
                 lambda: unpacker.record(data)):
        try:
            read()
        except ValueError as error:
            print(error)
for record in (1, b"x" * 20_000, "text"):
    assert unpacker.record(RecordPacker().pack(record)) == record
assert not any(name.startswith("pyarrow.") for name in sys.modules)
try:
    import flinknet.records.columns.partitioner
except ImportError as error:
    print(type(error).__name__)
"""


def test_without_pyarrow_a_batch_that_arrives_is_explained() -> None:
    """Everything else works, but the keyed exchange of columns cannot be imported."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_ARROW], capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    *refused, imported = run.stdout.splitlines()
    says = "it is an Arrow record batch, but pyarrow is not installed here: install flinknet[arrow]"
    assert refused == [says] * 4
    assert imported == "ModuleNotFoundError"


def test_flinknet_does_not_import_pyarrow() -> None:
    """The import takes long, and most programs do not need it."""
    program = "import sys, flinknet; sys.exit('pyarrow' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

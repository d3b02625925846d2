from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from struct import Struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from flinknet.records.columns.metadata import check_batch, check_schema
from flinknet.records.columns.record_batch import read_batch
from tests.traced_memory import traced_memory
from tests.unit.records.columns.arrow_batches import COLUMNS, batch_of, metadata_at

_U32, _I64 = Struct("<I"), Struct("<q")
HEAD_BYTES = 8


def message_of(schema: pa.Schema) -> bytearray:
    """Return the wire message of a schema."""
    return bytearray(schema.serialize().to_pybytes())


def metadata_of(schema: pa.Schema) -> bytes:
    return bytes(message_of(schema)[HEAD_BYTES:])


def point_all_to_the_first(message: bytearray, entries: int) -> int:
    """Let all entries of each vector of this length refer to its first one; return the number of
    vectors."""
    changed = 0
    for place in range(HEAD_BYTES, len(message) - 4 * entries, 4):
        if _U32.unpack_from(message, place)[0] != entries:
            continue
        places = range(place + 4, place + 4 + 4 * entries, 4)
        targets = [each + _U32.unpack_from(message, each)[0] for each in places]
        if len(set(targets)) == entries and max(targets) < len(message):
            for each in places:
                _U32.pack_into(message, each, targets[0] - each)
            changed += 1
    return changed


def nested(levels: int, width: int) -> pa.Schema:
    """Return nested structures without names. Only the first field of each structure is nested."""
    kind: pa.DataType = pa.int8()
    for _ in range(levels):
        kind = pa.struct([("", kind), *[("", pa.int8())] * (width - 1)])
    return pa.schema([("column", kind)])


FIELD = pa.field("", pa.null())
SCHEMAS = {
    "nothing": pa.schema([]),
    "fields without a name": pa.schema([FIELD] * 1000),
    "long names": pa.schema([pa.field("n" * 200, pa.int8())] * 100),
    "time zones": pa.schema([pa.field("", pa.timestamp("s", "UTC"))] * 1000),
    "times without a zone": pa.schema([pa.field("", pa.timestamp("s"))] * 1000),
    "unions": pa.schema([pa.field("", pa.dense_union([FIELD] * 100))] * 50),
    "empty metadata": pa.schema([FIELD.with_metadata({"": ""})] * 1000),
    "long metadata": pa.schema([FIELD], metadata={"key": "v" * 50_000}),
    "deep": nested(50, 2),
    "flat": pa.schema([(f"column {number}", pa.int64()) for number in range(500)]),
    "everything": batch_of().schema,
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_that_arrow_wrote_is_accepted(schema: pa.Schema) -> None:
    check_schema(metadata_of(schema))


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_every_type_is_accepted(name: str) -> None:
    check_schema(metadata_of(batch_of(name).schema))


@settings(max_examples=100)
@given(
    st.recursive(
        st.sampled_from([column.type for column in COLUMNS.values()]),
        lambda kinds: (
            st.lists(st.tuples(st.text(max_size=3), kinds), max_size=4).map(pa.struct)
            | kinds.map(pa.list_)
            | kinds.map(lambda kind: pa.map_(pa.string(), kind))
        ),
        max_leaves=20,
    )
)
def test_any_schema_that_arrow_wrote_is_accepted(kind: pa.DataType) -> None:
    check_schema(metadata_of(pa.schema([("column", kind)])))


@pytest.mark.parametrize(("levels", "width"), [(50, 2), (3, 13), (10, 7)])
def test_a_schema_that_is_far_more_than_its_bytes_is_refused(levels: int, width: int) -> None:
    """All children of its fields are the same, so they multiply with every level.

    The refusal comes before any of them is made.
    """
    message = message_of(nested(levels, width))
    assert point_all_to_the_first(message, width) == levels
    with traced_memory() as memory:
        before = pa.total_allocated_bytes()
        with pytest.raises(ValueError, match="the schema has the same part more than once"):
            read_batch(bytes(message) + bytes(8))
        assert memory.peak < 1 << 20
        assert pa.total_allocated_bytes() - before < 1 << 20


def repeated(schema: pa.Schema, entries: int) -> bytes:
    message = message_of(schema)
    assert point_all_to_the_first(message, entries)
    return bytes(message[HEAD_BYTES:])


MANY: dict[str, Callable[[], pa.Schema]] = {
    "names": lambda: pa.schema(
        [("n" * 3_000, pa.int8()), *((f"{number}", pa.int8()) for number in range(70))]
    ),
    "time zones": lambda: pa.schema(
        [
            ("", pa.timestamp("s", "z" * 3_000)),
            *((f"{number}", pa.timestamp("s", "z")) for number in range(70)),
        ]
    ),
    "metadata": lambda: pa.schema(
        [], metadata={"0": "v" * 3_000, **{f"{number}": "v" for number in range(1, 71)}}
    ),
    "metadata of a field": lambda: pa.schema(
        [FIELD.with_metadata({"0": "v" * 3_000, **{f"{n}": "v" for n in range(1, 71)}})]
    ),
}


@pytest.mark.parametrize("schema", MANY.values(), ids=MANY)
def test_long_texts_that_are_there_once_are_refused_many_times(
    schema: Callable[[], pa.Schema],
) -> None:
    check_schema(metadata_of(schema()))
    with pytest.raises(ValueError, match="the same part more than once"):
        check_schema(repeated(schema(), 71))


def test_a_name_that_is_no_text_is_refused() -> None:
    """A later use of the name would fail. Nested names are checked, too."""
    for schema in (
        pa.schema([("name", pa.int8())]),
        pa.schema([("a", pa.struct([("name", FIELD.type)]))]),
    ):
        metadata = metadata_of(schema)
        assert metadata.count(b"name") == 1
        with pytest.raises(ValueError, match="can't decode"):
            check_schema(metadata.replace(b"name", b"n\xffme"))


def test_numbers_of_another_order_are_refused() -> None:
    """They would be read as little-endian. Arrow does not write the field for little-endian."""
    metadata = metadata_of(pa.schema([("a", pa.int8())]).with_metadata({"key": "value"}))
    check_schema(metadata)
    refused = 0
    for place, points in product(range(0, len(metadata) - 1, 2), (4, 8, 12)):
        changed = bytearray(metadata)
        changed[place : place + 2] = points.to_bytes(2, "little")
        try:
            check_schema(bytes(changed))
        except ValueError as error:
            refused += "not little-endian" in str(error)
    assert refused


def test_any_bytes_are_a_schema_or_refused() -> None:
    """The bytes have not been verified before.

    The check ends soon, with or without a ValueError.
    """
    random = Random(3)
    refused = 0
    metadata = metadata_of(batch_of().schema)
    for number in range(2_000):
        changed = bytearray(metadata if number % 2 else random.randbytes(200))
        for _ in range(random.randrange(5)):
            place = random.randrange(len(changed) - 4)
            _U32.pack_into(changed, place, random.choice([0, 1, 200, 2**31, 2**32 - 1]))
        if random.random() < 0.3:
            del changed[random.randrange(len(changed)) :]
        try:
            check_schema(bytes(changed))
        except ValueError:
            refused += 1
    assert 200 < refused < 2_000


def test_a_batch_is_as_long_as_its_columns() -> None:
    """Arrow writes each of them into the body once, so a shorter body is refused."""
    batch = batch_of("strings", "lists", "maps", "structures", "unions")
    message = ipc.read_message(batch.serialize())
    metadata, size = message.metadata.to_pybytes(), message.body.size
    check_batch(metadata, size, size, is_dictionary=False)
    with pytest.raises(ValueError, match="the same bytes more than once"):
        check_batch(metadata, size // 2, size, is_dictionary=False)


ROWS = 70_000


@pytest.mark.parametrize(("columns", "entries"), [(0, ROWS), (1, 2 * ROWS), (5, 6 * ROWS)])
def test_the_entries_of_a_batch_are_limited_by_its_bytes(columns: int, entries: int) -> None:
    """Its rows and the entries of its columns count.

    64 are allowed for each byte, and 65,536 in any case.
    """
    for rows, free in ((ROWS, False), (65_536 // (columns + 1), True)):
        structures = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
        batch = pa.RecordBatch.from_struct_array(structures)
        for number in range(columns):
            batch = batch.append_column(str(number), pa.nulls(rows))
        message = ipc.read_message(batch.serialize())
        metadata, body = message.metadata.to_pybytes(), message.body.size
        check_batch(metadata, body, entries // 64 + 1, is_dictionary=False)
        if free:
            check_batch(metadata, body, 0, is_dictionary=False)
            continue
        says = f"its {ROWS} rows have {entries} entries .* the limit for those is"
        with pytest.raises(ValueError, match=says):
            check_batch(metadata, body, entries // 64 - 1, is_dictionary=False)


def test_a_length_below_zero_does_not_make_up_for_others() -> None:
    """This covers the lengths of a column, of its bytes and of the batch."""
    message = ipc.read_message(batch_of("integers").serialize())
    metadata, size = message.metadata.to_pybytes(), message.body.size
    refused = 0
    for place in range(0, len(metadata) - 8, 8):
        changed = bytearray(metadata)
        _I64.pack_into(changed, place, -(1 << 40))
        try:
            check_batch(bytes(changed), size, size, is_dictionary=False)
        except ValueError as error:
            refused += str(error) == "it has negative lengths"
    assert refused == 4, "rows, entries, and the lengths of two buffers"


@pytest.mark.parametrize("is_dictionary", [False, True])
def test_any_bytes_are_a_batch_or_refused(is_dictionary: bool) -> None:
    """This includes metadata that points out of itself."""
    random = Random(5)
    message = ipc.read_message(batch_of("strings", "lists", "maps").serialize())
    metadata, size = message.metadata.to_pybytes(), message.body.size
    refused = 0
    for _ in range(2_000):
        changed = bytearray(metadata)
        for _ in range(random.randrange(5)):
            place = random.randrange(len(changed) - 4)
            _U32.pack_into(changed, place, random.choice([0, 1, 200, 2**31, 2**32 - 1]))
        if random.random() < 0.3:
            del changed[random.randrange(len(changed)) :]
        try:
            check_batch(bytes(changed), size, size, is_dictionary=is_dictionary)
        except ValueError as error:
            refused += str(error) == "the batch refers to bytes outside of itself"
    assert refused > 200


def test_the_schema_comes_first() -> None:
    """It checks the metadata bounds that these tests use."""
    content = bytes(message_of(SCHEMAS["flat"]))
    assert metadata_at(content, 0) == (HEAD_BYTES, len(content))

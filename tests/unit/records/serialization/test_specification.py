"""SPEC.md's text about records agrees with the code."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

import flinknet
from flinknet.config import NetworkConfig
from flinknet.records.serialization.extension_types import (
    EXTENSIONS_NESTED_MAX,
    NESTING_MAX,
    OWN_EXTENSIONS,
)
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import RecordDeserializer, RecordUnpacker
from flinknet.records.serialization.spanning_record import ReassemblyMemory
from tests.unit.arrangements import Running
from tests.unit.records.columns.cutting import records_of
from tests.unit.records.serialization.record_values import TYPES
from tests.unit.records.serialization.test_packer import GOLDEN
from tests.unit.records.writing import Arranged

SPECIFICATION = (Path(flinknet.__file__).parent / "wire" / "SPEC.md").read_text()
RECORDS: list[Any] = [1, ("a", date(2020, 1, 1), 1.5), 2]


class Message(NamedTuple):
    """A BufferResponse, as any msgpack library reads it."""

    data_type: int
    continued: int
    unfinished: int
    records: int
    body: bytes


def messages() -> list[Message]:
    """Return the messages of the record over three buffers that SPEC.md shows."""
    (block,) = re.findall(r"```buffers\n(.*?)```", SPECIFICATION, re.DOTALL)
    unpacker = msgpack.Unpacker()
    unpacker.feed(bytes.fromhex("".join(line[:48].strip() for line in block.splitlines())))
    parts = list(unpacker)
    found = []
    for number, (head, body) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        kind, channel, sequence, backlog, *told = head
        assert (kind, channel, sequence, backlog) == (0, 0, number, 2 - number)
        found.append(Message._make((*told, body)))
    return found


def test_a_record_over_three_buffers_is_written_as_specified() -> None:
    arranged = Arranged(segment_bytes=8)
    emitting = Running(arranged.writer.emit_many(RECORDS))
    written = []
    while True:
        arranged.writer.flush()
        while (polled := arranged.views[0].poll()) is not None:
            buffer = polled.buffer
            with buffer.view_with_room() as view:
                told = buffer.data_type, buffer.continued, buffer.unfinished, buffer.records
                written.append(Message._make((*map(int, told), bytes(view[5:]))))
            buffer.recycle()
        if emitting.done:
            break
        emitting.go_on()
    assert written == messages()
    arranged.close()


def test_a_record_over_three_buffers_is_read_as_specified() -> None:
    config = NetworkConfig()
    deserializer = RecordDeserializer(RecordUnpacker.of(config), ReassemblyMemory.of(config))
    received: list[Any] = []
    for data_type, continued, unfinished, whole, body in messages():
        data = memoryview(bytearray(5) + body)
        received += records_of(
            deserializer, data, continued, unfinished, whole, clear_end=data_type == 8
        )
    assert received == RECORDS


def test_every_extension_is_specified_with_its_bytes() -> None:
    """Golden bytes: an example of each type, as it is written."""
    shown = {found.replace(" ", "") for found in re.findall(r"\| `([0-9a-f ]+)` \|", SPECIFICATION)}
    assert set(GOLDEN) <= shown
    pack = RecordPacker(TYPES).pack
    codes = {msgpack.unpackb(pack(value)).code for key, value in GOLDEN.items() if key[2:4] != "ff"}
    assert codes == OWN_EXTENSIONS


def test_the_limits_of_records_are_specified() -> None:
    config = NetworkConfig()
    for limit in (
        f"{config.record_bytes_max >> 20} MiB, `record_bytes_max`",
        f"{config.record_elements_max:,}, `record_elements_max`",
        f"in the content of one extension | {NESTING_MAX:,} |",
        f"in one another | {EXTENSIONS_NESTED_MAX} |",
    ):
        assert limit in SPECIFICATION


def test_a_reader_takes_every_form_of_a_value() -> None:
    """This includes integers of any width, floats of 32 bits and any key, even if flinknet does not
    write them."""
    unpack = RecordUnpacker.of(NetworkConfig()).record
    for number in (5, 200, 70_000):
        for width in (1, 2, 4, 8):
            if number < 1 << 8 * width:
                head = {1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}[width]
                assert unpack(bytes([head]) + number.to_bytes(width, "big")) == number
    for number in (5, -5, -128):
        for width in (1, 2, 4, 8):
            head = {1: 0xD0, 2: 0xD1, 4: 0xD2, 8: 0xD3}[width]
            assert unpack(bytes([head]) + number.to_bytes(width, "big", signed=True)) == number
    assert unpack(bytes.fromhex("ca3fc00000")) == 1.5
    for text in ("a3616263", "d903616263", "da0003616263", "db00000003616263"):
        assert unpack(bytes.fromhex(text)) == "abc"
    for array in ("9105", "dc000105", "dd0000000105"):
        assert unpack(bytes.fromhex(array)) == (5,)
    for mapped in ("819105c0", "de00019105c0", "df000000019105c0"):
        assert unpack(bytes.fromhex(mapped)) == {(5,): None}
    for extension in ("d5079107", "c702079107", "c80002079107", "c900000002079107"):
        assert unpack(bytes.fromhex(extension)) == {7}
    assert unpack(bytes.fromhex("8205010502")) == {5: 2}, "the last of equal keys"

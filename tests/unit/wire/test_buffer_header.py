"""The header of every buffer, in its plain and its compiled form."""

from __future__ import annotations

import pickle
from types import ModuleType

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.buffer import DataType
from flinknet.compiled_modules import COMPILED
from flinknet.errors import RemoteProtocolError
from flinknet.wire import buffer_header
from tests.plain_module import plain_module

PLAIN = plain_module("flinknet.wire.buffer_header")
FORMS = [PLAIN] + [buffer_header] * COMPILED
NUMBERS = st.integers(0, 2**32 - 1)
FIELDS = ("channel", "sequence", "backlog", "data_type", "size", "continued", "unfinished")

form = pytest.mark.parametrize("form", FORMS, ids=["plain", "compiled"][: len(FORMS)])


def encoded(form: ModuleType = PLAIN) -> bytearray:
    header: bytes = form.encode_buffer_header(1, 2, 3, DataType.DATA_BUFFER, 4, 1, 2, 1)
    return bytearray(header)


@form
@given(
    channel=NUMBERS,
    sequence=NUMBERS,
    backlog=NUMBERS,
    data_type=st.sampled_from(list(DataType)[1:]),
    size=NUMBERS,
    cut=st.tuples(NUMBERS, NUMBERS, NUMBERS),
    before=st.binary(max_size=3),
)
def test_written_headers_are_read_and_are_msgpack(
    form: ModuleType,
    channel: int,
    sequence: int,
    backlog: int,
    data_type: DataType,
    size: int,
    cut: tuple[int, int, int],
    before: bytes,
) -> None:
    header = form.encode_buffer_header(channel, sequence, backlog, data_type, size, *cut)
    assert len(header) == form.BUFFER_PREFIX_BYTES
    assert header == PLAIN.encode_buffer_header(channel, sequence, backlog, data_type, size, *cut)
    assert msgpack.unpackb(header[:-5]) == [0, channel, sequence, backlog, data_type, *cut]
    assert header[-5:] == b"\xc6" + size.to_bytes(4, "big")
    read = form.read_buffer_header(bytearray(before + header), len(before))
    assert [getattr(read, field) for field in FIELDS] == [
        channel,
        sequence,
        backlog,
        data_type,
        size,
        cut[0],
        cut[1],
    ]
    assert read.records == cut[2]


def uint32(number: int) -> bytes:
    return b"\xce" + number.to_bytes(4, "big")


@form
def test_other_headers_are_left_to_other_readers(form: ModuleType) -> None:
    for place, byte in ((0, 0x97), (1, 1)):
        other = encoded()
        other[place] = byte
        assert form.read_buffer_header(other, 0) is None


@form
@pytest.mark.parametrize("place", [2, 7, 12, 18, 23, 28, 33])
def test_a_header_of_the_wrong_form_is_refused(form: ModuleType, place: int) -> None:
    wrong = encoded()
    wrong[place] ^= 1
    with pytest.raises(RemoteProtocolError, match="BUFFER_RESPONSE header of the wrong form"):
        form.read_buffer_header(wrong, 0)


@form
@pytest.mark.parametrize("ordinal", [0, len(DataType), 0x7F, 0xFF])
def test_an_unknown_type_is_refused(form: ModuleType, ordinal: int) -> None:
    wrong = encoded()
    wrong[17] = ordinal
    with pytest.raises(RemoteProtocolError, match=f"unknown data type {ordinal}"):
        form.read_buffer_header(wrong, 0)


@form
@given(channel=NUMBERS, credit=NUMBERS)
def test_credit(form: ModuleType, channel: int, credit: int) -> None:
    message = form.encode_credit(channel, credit)
    assert len(message) == form.CREDIT_BYTES
    assert message == b"\x93\x06" + uint32(channel) + uint32(credit)
    assert form.read_credit(bytearray(b"x" + message), 1) == (channel, credit)


@form
def test_other_messages_and_wrong_forms_of_credit(form: ModuleType) -> None:
    for place, byte in ((0, 0x92), (1, 7)):
        other = bytearray(form.encode_credit(1, 2))
        other[place] = byte
        assert form.read_credit(other, 0) is None
    for place in (2, 7):
        wrong = bytearray(form.encode_credit(1, 2))
        wrong[place] ^= 1
        with pytest.raises(RemoteProtocolError, match="ADD_CREDIT header of the wrong form"):
            form.read_credit(wrong, 0)


@form
def test_a_body_is_put_together(form: ModuleType) -> None:
    read, body = memoryview(bytearray(b"...conte...")), memoryview(bytearray(7))
    form.copy_body(read, 3, 8, body, 0)
    form.copy_body(memoryview(b"nt"), 0, 2, body, 5)
    assert bytes(body) == b"content"


@pytest.mark.skipif(not COMPILED, reason="plain Python looks after itself")
def test_compiled_nothing_is_touched_outside_of_what_is_there() -> None:
    form = buffer_header
    with pytest.raises(ValueError, match="cut off"):
        form.read_buffer_header(encoded()[:-1], 0)
    with pytest.raises(ValueError, match="cut off"):
        form.read_credit(bytearray(form.encode_credit(1, 2)), 1)
    data, body = memoryview(bytearray(8)), memoryview(bytearray(4))
    for start, end, filled in ((-1, 2, 0), (3, 2, 0), (0, 9, 0), (0, 5, 0), (0, 2, 3), (0, 2, -1)):
        with pytest.raises(ValueError, match="no place"):
            form.copy_body(data, start, end, body, filled)
    for wrong in (-1, 2**32):
        with pytest.raises(OverflowError):
            form.encode_credit(wrong, 1)


@form
def test_a_header_is_pickled(form: ModuleType) -> None:
    """The model search pickles every object of its worlds."""
    if form is PLAIN and COMPILED:
        pytest.skip("its class stands under another name here")
    header = form.BufferHeader(1, 2, 3, DataType.DATA_BUFFER, 4)
    again = pickle.loads(pickle.dumps(header))
    assert [getattr(again, field) for field in FIELDS] == [1, 2, 3, DataType.DATA_BUFFER, 4, 0, 0]

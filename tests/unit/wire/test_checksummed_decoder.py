"""Checksums: nothing of a damaged message reaches the receiver, for any damaged bit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.errors import CorruptedDataError, ErrorCode, RemoteProtocolError
from flinknet.wire.buffer_header import BufferHeader
from flinknet.wire.checksum import crc32c, encode_trailer, seal
from flinknet.wire.codec import Stall
from flinknet.wire.messages import MessageType
from tests.unit.wire.received import (
    Received,
    about,
    buffer_response,
    error_response,
    make_decoder,
    partition_request,
)

M = MessageType
LIMITS = WireLimits()
MESSAGES = {
    "data": buffer_response(7, 1, 2, body=b"\x01\x02\x03", records=3),
    "an event": buffer_response(7, 2, 0, DataType.END_OF_DATA, b"\x91\x01"),
    "credit": about(M.ADD_CREDIT, 7, 2),
    "a request": partition_request(7),
    "a cancel": about(M.CANCEL_PARTITION_REQUEST, 7),
    "an error": error_response(7, 6, b"the producer failed"),
    "a backlog": about(M.BACKLOG_ANNOUNCEMENT, 7, 2),
    "a heartbeat": b"\x91\x0c",
    "goodbye": b"\x91\x05",
}


class Asking(Received):
    """A receiver that records the headers for which it was asked for memory."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: list[BufferHeader] = []

    def begin_buffer(self, header: BufferHeader) -> memoryview | None:
        self.headers.append(header)
        return super().begin_buffer(header)


def events_of(data: bytes, piece: int = 2**16) -> list[tuple[Any, ...]]:
    received = Received()
    decoder = make_decoder(received, checksums=True)
    for start in range(0, len(data), piece):
        decoder.feed(data[start : start + piece])
    return received.events


def plain_events_of(data: bytes) -> list[tuple[Any, ...]]:
    received = Received()
    make_decoder(received).feed(data)
    return received.events


@pytest.mark.parametrize("name", MESSAGES)
def test_a_sealed_message_arrives_as_without_its_trailer(name: str) -> None:
    assert events_of(seal(MESSAGES[name])) == plain_events_of(MESSAGES[name])


@given(st.lists(st.sampled_from(sorted(MESSAGES)), max_size=6), st.integers(1, 40))
def test_messages_arrive_in_any_pieces(names: list[str], piece: int) -> None:
    data = b"".join(seal(MESSAGES[name]) for name in names)
    plain = b"".join(MESSAGES[name] for name in names)
    assert events_of(data, piece) == plain_events_of(plain)


@pytest.mark.parametrize("name", MESSAGES)
def test_nothing_is_done_before_the_trailer_is_here(name: str) -> None:
    sealed = seal(MESSAGES[name])
    received = Received()
    decoder = make_decoder(received, checksums=True)
    for byte in sealed[:-1]:
        decoder.feed(bytes([byte]))
        assert received.events == []
    decoder.feed(sealed[-1:])
    assert len(received.events) == 1


def says_where_its_trailer_is(message: bytes) -> bool:
    """Return whether the type of a message exists and its length is allowed."""
    kind = message[1]
    if kind == M.BUFFER_RESPONSE:
        return int.from_bytes(message[34:38], "big") <= LIMITS.event_bytes_max
    if kind == M.ERROR_RESPONSE:
        return int.from_bytes(message[9:11], "big") <= LIMITS.error_text_bytes_max
    return kind in list(M)


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("piece", [1, 2**16])
def test_no_flipped_bit_of_a_message_reaches_the_receiver(name: str, piece: int) -> None:
    """This covers header, body and trailer.

    The error is CORRUPTED, even if the message is invalid for another reason, wherever the decoder
    can find the trailer. A length that has grown takes the bytes behind the message.
    """
    sealed, behind = seal(MESSAGES[name]), bytes(LIMITS.event_bytes_max + 100)
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed + behind)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged = bytes(flipped)
        received = Received()
        decoder = make_decoder(received, checksums=True)
        with pytest.raises(RemoteProtocolError) as refused:
            for start in range(0, len(damaged), piece):
                decoder.feed(damaged[start : start + piece])
        assert received.events == []
        code = refused.value.code
        assert (code is ErrorCode.CORRUPTED) == says_where_its_trailer_is(damaged), bit


WRONG = {
    "array": b"\x97" + MESSAGES["data"][1:],
    "mark": MESSAGES["data"][:2] + b"\xcf" + MESSAGES["data"][3:],
    "data type": MESSAGES["data"][:17] + b"\x0c" + MESSAGES["data"][18:],
    "cut": buffer_response(7, body=b"\x01", continued=2),
    "records": buffer_response(7, body=b"\x01", records=2),
    "long event": buffer_response(7, data_type=DataType.EVENT_BUFFER, body=bytes(65)),
    "array of a message without body": b"\x94" + MESSAGES["credit"][1:],
    "form of a message without body": MESSAGES["credit"][:2] + b"\xcf" + MESSAGES["credit"][3:],
    "code": error_response(7, 0, b"the producer failed"),
}


@pytest.mark.parametrize("piece", [1, 2**16])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_violation_is_one_when_the_trailer_is_right(wrong: str, piece: int) -> None:
    """It is reported as damage when the trailer is wrong."""
    for trailer, code in ((b"", ErrorCode.PROTOCOL), (b"\xce\0\0\0\0", ErrorCode.CORRUPTED)):
        limits = WireLimits(event_bytes_max=64)
        decoder = make_decoder(Received(), checksums=True, segment_bytes=128, limits=limits)
        data = WRONG[wrong] + (trailer or encode_trailer(crc32c(WRONG[wrong])))
        with pytest.raises(RemoteProtocolError) as refused:
            for start in range(0, len(data), piece):
                decoder.feed(data[start : start + piece])
        assert refused.value.code is code


@pytest.mark.parametrize("name", ["data", "an event", "credit", "an error", "a heartbeat"])
def test_a_wrong_checksum_has_its_own_error(name: str) -> None:
    message = MESSAGES[name]
    for trailer in (encode_trailer(crc32c(message) ^ 1), b"\xcf" + seal(message)[-4:]):
        with pytest.raises(CorruptedDataError, match=r"checksum is 0x[0-9a-f]{8}") as refused:
            events_of(message + trailer)
        assert refused.value.code is ErrorCode.CORRUPTED
    decoder = make_decoder(Received(), checksums=True)
    with pytest.raises(CorruptedDataError):
        decoder.feed(message + bytes(5))
    with pytest.raises(CorruptedDataError):
        decoder.feed(seal(message))


def test_a_damaged_body_that_is_not_wanted_ends_the_connection_as_well() -> None:
    """The length of the body is part of the stream and cannot be trusted either."""
    message = buffer_response(7, body=b"\x01\x02\x03")
    decoder = make_decoder(Received(skipped=[7]), checksums=True)
    decoder.feed(seal(message))
    with pytest.raises(CorruptedDataError):
        decoder.feed(message + encode_trailer(0))


def test_an_error_text_that_is_too_long_is_refused_before_anything_is_kept() -> None:
    received = Received()
    decoder = make_decoder(received, checksums=True)
    with pytest.raises(RemoteProtocolError, match="error text of 65535 bytes"):
        decoder.feed(error_response(7, 6, b"", size=65_535))


def test_memory_is_asked_for_once_however_the_body_comes() -> None:
    for piece in (1, 3, 2**16):
        received = Asking()
        decoder = make_decoder(received, checksums=True)
        data = seal(MESSAGES["data"])
        for start in range(0, len(data), piece):
            decoder.feed(data[start : start + piece])
        assert len(received.headers) == 1


@pytest.mark.parametrize("piece", [1, 2**16])
def test_a_frame_that_waits_for_memory_stays_until_there_is_some(piece: int) -> None:
    """The decoder does not read beyond it meanwhile."""

    class Full(Received):
        is_full = True

        def begin_buffer(self, header: BufferHeader) -> Any:
            return Stall.FOR_MEMORY if self.is_full else super().begin_buffer(header)

    received = Full()
    decoder = make_decoder(received, checksums=True)
    data = seal(MESSAGES["data"]) + seal(MESSAGES["credit"])
    for start in range(0, len(data), piece):
        part = data[start : start + piece]
        decoder.get_buffer()[: len(part)] = part
        decoder.received(len(part))
    assert received.events == []
    received.is_full = False
    decoder.received(0)
    assert received.events == plain_events_of(MESSAGES["data"] + MESSAGES["credit"])


def test_a_turn_has_a_number_of_messages_and_the_next_one_goes_on() -> None:
    data = seal(MESSAGES["credit"]) * 5
    received = Received()
    decoder = make_decoder(received, checksums=True, turn_messages_max=2)
    decoder.get_buffer()[: len(data)] = data
    decoder.received(len(data))
    turns = 1
    while decoder.has_more:
        assert len(received.events) == 2 * turns
        decoder.received(0)
        turns += 1
    assert received.events == plain_events_of(MESSAGES["credit"] * 5)
    assert turns == 3


BEFORE_THE_TRAILER = {
    "an unknown type": b"\x92\x03",
    "a body over every limit": buffer_response(7, size=2**20, body=b""),
    "a text over its limit": error_response(7, 6, b"", size=1025),
}
BEHIND_THE_TRAILER = {
    "another marker": b"\x93\x06\xcd" + about(M.ADD_CREDIT, 7, 2)[3:],
    "another array": b"\x94" + about(M.ADD_CREDIT, 7, 2)[1:],
    "an unknown data type": buffer_response(7, data_type=99),
    "data over the segment size": buffer_response(7, body=bytes(1024)),
    "records without a place": buffer_response(7, records=9),
    "no UTF-8": error_response(7, 6, b"\xff"),
}


@pytest.mark.parametrize("name", BEFORE_THE_TRAILER)
def test_a_message_without_room_for_a_trailer_is_a_violation_at_once(name: str) -> None:
    with pytest.raises(RemoteProtocolError) as raised:
        events_of(BEFORE_THE_TRAILER[name])
    assert raised.value.code is ErrorCode.PROTOCOL


@pytest.mark.parametrize("trailer", ["right", "wrong", "missing"])
@pytest.mark.parametrize("name", BEHIND_THE_TRAILER)
def test_every_other_violation_is_one_behind_a_right_trailer(name: str, trailer: str) -> None:
    message = BEHIND_THE_TRAILER[name]
    if trailer == "missing":
        assert events_of(message) == []
        return
    sealed = seal(message) if trailer == "right" else message + encode_trailer(crc32c(message) ^ 1)
    with pytest.raises(RemoteProtocolError) as raised:
        events_of(sealed)
    expected = ErrorCode.PROTOCOL if trailer == "right" else ErrorCode.CORRUPTED
    assert raised.value.code is expected


def test_a_receiver_may_end_the_turn_and_what_is_behind_comes_in_the_next() -> None:
    class Ending(Received):
        def on_message(self, message_type: MessageType, fields: tuple[int | bytes, ...]) -> None:
            super().on_message(message_type, fields)
            decoder.end_turn()

    received = Ending()
    decoder = make_decoder(received, checksums=True)
    message = seal(partition_request(7))
    decoder.get_buffer()[: 2 * len(message)] = message * 2
    decoder.received(2 * len(message))
    assert (len(received.events), decoder.has_more) == (1, True)
    decoder.received(0)
    assert (len(received.events), decoder.has_more) == (2, False)

"""The bytes of every message are pinned: files that no code of flinknet has written."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.errors import HandshakeError, RemoteProtocolError
from flinknet.wire.codec import encode, encode_buffer_header, encode_error
from flinknet.wire.handshake import Hello, Verdict, decode_hello
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.wire.received import GOLDEN, HEARTBEAT, Received, make_decoder

LIMITS = WireLimits()
PARTITION = bytes(range(0xA0, 0xB0))

HELLOS = {
    "hello": Hello("worker-1", "127.0.0.1:7001", "orders", 3, 32768),
    "welcome": Hello("worker-2", "[::1]:7002", "orders", 3, 32768, Verdict.WELCOME),
    "refusal": Hello("worker-2", "[::1]:7002", "orders", 4, 64, Verdict.IDENTITY, "attempt 4 ≠ 3"),
}

MESSAGES: dict[str, tuple[bytes, tuple[Any, ...]]] = {
    "buffer_response": (
        encode_buffer_header(0x01020304, 5, 6, DataType.DATA_BUFFER, 4, 1, 2, 1)
        + b"\x01\x05\x92\x93",
        (
            MessageType.BUFFER_RESPONSE,
            0x01020304,
            5,
            6,
            DataType.DATA_BUFFER,
            b"\x01\x05\x92\x93",
            1,
            2,
            1,
        ),
    ),
    "buffer_response_event": (
        encode_buffer_header(1, 0xFFFFFFFF, 0, DataType.END_OF_DATA, 2) + b"\x91\x01",
        (MessageType.BUFFER_RESPONSE, 1, 0xFFFFFFFF, 0, DataType.END_OF_DATA, b"\x91\x01"),
    ),
    "error_response": (
        encode_error(7, 6, "the producer failed: ValueError: π", LIMITS),
        (MessageType.ERROR_RESPONSE, 7, 6, "the producer failed: ValueError: π"),
    ),
    "error_response_connection": (
        encode_error(CONNECTION_CHANNEL, 1, "", LIMITS),
        (MessageType.ERROR_RESPONSE, CONNECTION_CHANNEL, 1, ""),
    ),
    "partition_request": (
        encode(MessageType.PARTITION_REQUEST, 8, PARTITION, 9, 2),
        (MessageType.PARTITION_REQUEST, 8, PARTITION, 9, 2),
    ),
    "cancel_partition_request": (
        encode(MessageType.CANCEL_PARTITION_REQUEST, 0x80000000),
        (MessageType.CANCEL_PARTITION_REQUEST, 0x80000000),
    ),
    "close_request": (encode(MessageType.CLOSE_REQUEST), (MessageType.CLOSE_REQUEST,)),
    "add_credit": (
        encode(MessageType.ADD_CREDIT, 10, 65535),
        (MessageType.ADD_CREDIT, 10, 65535),
    ),
    "resume_consumption": (
        encode(MessageType.RESUME_CONSUMPTION, 11),
        (MessageType.RESUME_CONSUMPTION, 11),
    ),
    "acknowledge_all_records_processed": (
        encode(MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, 12),
        (MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, 12),
    ),
    "backlog_announcement": (
        encode(MessageType.BACKLOG_ANNOUNCEMENT, 13, 4),
        (MessageType.BACKLOG_ANNOUNCEMENT, 13, 4),
    ),
    "new_buffer_size": (
        encode(MessageType.NEW_BUFFER_SIZE, 14, 256),
        (MessageType.NEW_BUFFER_SIZE, 14, 256),
    ),
    "heartbeat": (encode(MessageType.HEARTBEAT), (MessageType.HEARTBEAT,)),
}

every_message = pytest.mark.parametrize("name", MESSAGES)
every_hello = pytest.mark.parametrize("name", HELLOS)


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


def decoded(data: bytes) -> list[tuple[Any, ...]] | None:
    """Return the events in ``data`` and a heartbeat behind it, so that the last message has to end
    where the data does; None if they are refused."""
    received = Received()
    try:
        make_decoder(received).feed(data + HEARTBEAT)
    except RemoteProtocolError:
        return None
    return received.events


def hello_of(data: bytes) -> Hello | None:
    try:
        found = decode_hello(data, LIMITS)
    except HandshakeError:
        return None
    return found[0] if found is not None else None


def test_there_is_a_file_for_every_message_type_and_no_other() -> None:
    assert {events[0] for _, events in MESSAGES.values()} == set(MessageType)
    conversation = {"conversation-consumer", "conversation-producer"}
    assert {path.stem for path in GOLDEN.iterdir()} == {*MESSAGES, *HELLOS, *conversation}


@every_message
def test_a_message_is_encoded_as_ever(name: str) -> None:
    """E16, F1."""
    encoded, _ = MESSAGES[name]
    assert encoded == golden(name)


@every_message
def test_a_message_is_decoded_as_ever(name: str) -> None:
    """E16, F1."""
    _, event = MESSAGES[name]
    assert decoded(golden(name)) == [event, (MessageType.HEARTBEAT,)]


@every_message
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_no_byte_of_a_message_can_change_unnoticed(name: str, flip: int) -> None:
    data, (_, event) = golden(name), MESSAGES[name]
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= flip
        assert decoded(bytes(changed)) != [event, (MessageType.HEARTBEAT,)], f"byte {position}"


@every_hello
def test_a_hello_is_encoded_as_ever(name: str) -> None:
    assert HELLOS[name].encode() == golden(name)


@every_hello
def test_a_hello_is_decoded_as_ever(name: str) -> None:
    data = golden(name)
    assert decode_hello(data, LIMITS) == (HELLOS[name], len(data))


@every_hello
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_no_byte_of_a_hello_can_change_unnoticed(name: str, flip: int) -> None:
    data = golden(name)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= flip
        assert hello_of(bytes(changed)) != HELLOS[name], f"byte {position}"

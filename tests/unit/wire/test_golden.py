"""The bytes of every message are pinned by files that no code of flinknet has written."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.errors import HandshakeError, RemoteProtocolError
from flinknet.wire.buffer_header import encode_buffer_header
from flinknet.wire.checksum import seal
from flinknet.wire.codec import encode, encode_error
from flinknet.wire.events import (
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointKind,
    CheckpointOptions,
    DecodedEvent,
    EndOfChannelState,
    Event,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
    decode_event,
)
from flinknet.wire.handshake_messages import (
    Answer,
    Challenge,
    HandshakeMessage,
    Hello,
    Opening,
    Refusal,
    Verdict,
    WorkerIdentity,
    decode_handshake,
)
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.wire.received import GOLDEN, HEARTBEAT, Received, make_decoder

LIMITS = WireLimits()
PARTITION = bytes(range(0xA0, 0xB0))


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


SECRET = b"secret"
CONSUMER = WorkerIdentity("consumer", "127.0.0.1:7002", "orders", 0, 64)
PRODUCER = WorkerIdentity("producer", "127.0.0.1:7001", "orders", 0, 64)
OPENING = Opening(bytes(range(16)))
OPENED = golden("opening")
CHALLENGED = OPENED + golden("challenge")
SAID = CHALLENGED + golden("hello")

HANDSHAKES: dict[str, tuple[bytes, HandshakeMessage]] = {
    "opening": (OPENING.encode(), OPENING),
    "challenge": (
        Challenge.encode(bytes(range(16, 32)), SECRET, OPENED),
        Challenge(bytes(range(16, 32)), golden("challenge")[-32:]),
    ),
    "hello": (
        Hello.encode(CONSUMER, SECRET, CHALLENGED),
        Hello(CONSUMER, golden("hello")[-32:]),
    ),
    "welcome": (
        Answer.encode(Verdict.WELCOME, PRODUCER, "", SECRET, SAID),
        Answer(Verdict.WELCOME, PRODUCER, "", golden("welcome")[-32:]),
    ),
    "duplicate": (
        Answer.encode(Verdict.DUPLICATE, PRODUCER, "connected already", SECRET, SAID),
        Answer(Verdict.DUPLICATE, PRODUCER, "connected already", golden("duplicate")[-32:]),
    ),
    "refusal": (Refusal(Verdict.FULL).encode(), Refusal(Verdict.FULL)),
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
    "add_event_credit": (
        encode(MessageType.ADD_EVENT_CREDIT, 11, 500),
        (MessageType.ADD_EVENT_CREDIT, 11, 500),
    ),
    "heartbeat": (encode(MessageType.HEARTBEAT), (MessageType.HEARTBEAT,)),
}

BUFFERS: list[tuple[int, DataType, int, int, int, bytes]] = [
    (2, DataType.DATA_BUFFER, 0, 7, 1, bytes.fromhex("0193a161c70301cd")),
    (1, DataType.DATA_BUFFER, 8, 0, 0, bytes.fromhex("4756cb3ff8000000")),
    (0, DataType.DATA_BUFFER_WITH_CLEAR_END, 3, 0, 1, bytes.fromhex("00000002")),
]
"""A record over three buffers: backlog, data type, continued, unfinished, records and body."""

MOMENT_MS = 1_700_000_000_000


def barrier(
    alignment: Alignment,
    timeout_ms: int | None = None,
    kind: CheckpointKind = CheckpointKind.CHECKPOINT,
) -> CheckpointBarrier:
    number = 8 if kind else 7
    return CheckpointBarrier(number, MOMENT_MS, CheckpointOptions(kind, alignment, timeout_ms))


EVENTS: list[DecodedEvent] = [
    barrier(Alignment.ALIGNED),
    barrier(Alignment.ALIGNED, 30_000),
    barrier(Alignment.UNALIGNED),
    barrier(Alignment.FORCED_ALIGNED, 30_000),
    barrier(Alignment.AT_LEAST_ONCE),
    barrier(Alignment.ALIGNED, kind=CheckpointKind.SAVEPOINT_TERMINATE),
    CancelCheckpointMarker(7),
    Watermark(MOMENT_MS),
    Watermark(-1),
    WatermarkStatus(idle=True),
    LatencyMarker(MOMENT_MS, "map", 3),
    EndOfChannelState(),
]

SEALED = ("add_credit", "buffer_response")

every_message = pytest.mark.parametrize("name", MESSAGES)
every_handshake = pytest.mark.parametrize("name", HANDSHAKES)


def decoded(data: bytes) -> list[tuple[Any, ...]] | None:
    """Return the events in ``data`` and in a heartbeat behind it, or None if they are refused.

    The heartbeat shows that the last message ends where the data does.
    """
    received = Received()
    try:
        make_decoder(received).feed(data + HEARTBEAT)
    except RemoteProtocolError:
        return None
    return received.events


def said_by(data: bytes) -> HandshakeMessage | None:
    try:
        found = decode_handshake(data, LIMITS)
    except HandshakeError:
        return None
    return found[0] if found is not None else None


def test_there_is_a_file_for_every_message_type_and_no_other() -> None:
    assert {events[0] for _, events in MESSAGES.values()} == set(MessageType)
    conversation = {"conversation-consumer", "conversation-producer"}
    sealed = (f"sealed_{name}" for name in SEALED)
    named = {*MESSAGES, *HANDSHAKES, *conversation, *sealed, "buffers", "events"}
    assert {path.stem for path in GOLDEN.iterdir()} == named


@every_message
def test_a_message_is_encoded_as_ever(name: str) -> None:
    """E16, F1."""
    encoded, _ = MESSAGES[name]
    assert encoded == golden(name)


def test_a_record_over_three_buffers_is_encoded_and_decoded_as_ever() -> None:
    encoded, events = b"", []
    for sequence, (backlog, kind, *cuts, body) in enumerate(BUFFERS):
        continued, unfinished, records = cuts
        encoded += encode_buffer_header(
            0, sequence, backlog, kind, len(body), continued, unfinished, records
        )
        encoded += body
        events.append((MessageType.BUFFER_RESPONSE, 0, sequence, backlog, kind, body, *cuts))
    assert encoded == golden("buffers")
    assert decoded(encoded) == [*events, (MessageType.HEARTBEAT,)]


def test_events_are_encoded_and_decoded_as_ever() -> None:
    """E16, A14: one message each, one after the other."""
    encoded, messages = b"", []
    for sequence, said in enumerate(EVENTS):
        data_type, body = said.event()
        encoded += encode_buffer_header(0, sequence, 0, data_type, len(body), 0, 0, 0) + body
        messages.append((MessageType.BUFFER_RESPONSE, 0, sequence, 0, data_type, body))
    assert encoded == golden("events")
    received = decoded(golden("events"))
    assert received == [*messages, (MessageType.HEARTBEAT,)]
    assert [decode_event(Event(message[4], message[5])) for message in received[:-1]] == EVENTS


@pytest.mark.parametrize("name", SEALED)
def test_a_checksum_is_encoded_as_ever(name: str) -> None:
    assert seal(golden(name)) == golden(f"sealed_{name}")


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


@every_handshake
def test_a_handshake_is_encoded_as_ever(name: str) -> None:
    assert HANDSHAKES[name][0] == golden(name)


@every_handshake
def test_a_handshake_is_decoded_as_ever(name: str) -> None:
    data = golden(name)
    assert decode_handshake(data, LIMITS) == (HANDSHAKES[name][1], len(data))


@every_handshake
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_no_byte_of_a_handshake_can_change_unnoticed(name: str, flip: int) -> None:
    data = golden(name)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= flip
        assert said_by(bytes(changed)) != HANDSHAKES[name][1], f"byte {position}"

"""A receiver that records a decoder's output, and messages encoded by hand, without the codec."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.wire.buffer_header import BufferHeader
from flinknet.wire.checksummed_decoder import ChecksummedFrameDecoder
from flinknet.wire.codec import BufferReceiver, FrameDecoder
from flinknet.wire.messages import MessageType

SEGMENT_BYTES = 64
HEARTBEAT = b"\x91\x0c"
GOLDEN = Path(__file__).parent / "golden"

SPEC = Path(__file__).parents[3] / "flinknet" / "wire" / "SPEC.md"


def golden_messages(side: str) -> bytes:
    """Return the messages of one side of SPEC's example, without the two of its handshake."""
    data = (GOLDEN / f"conversation-{side}.bin").read_bytes()
    for _ in range(2):
        data = data[12 + data[11] :]
    return data


def buffer_event(header: BufferHeader, body: bytes) -> tuple[Any, ...]:
    """Return a BufferResponse as an event.

    The event holds type, channel, sequence, backlog, data type and body. Unless all three are 0,
    ``continued``, ``unfinished`` and ``records`` follow.
    """
    event = (
        MessageType.BUFFER_RESPONSE,
        header.channel,
        header.sequence,
        header.backlog,
        header.data_type,
        body,
    )
    cut = (header.continued, header.unfinished, header.records)
    return (*event, *cut) if any(cut) else event


class Received(BufferReceiver):
    """A MessageReceiver that records every event as a tuple and skips the bodies of some
    channels."""

    def __init__(self, skipped: Iterable[int] = ()) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.bodies_begun = 0
        self._skipped = set(skipped)
        self._header = BufferHeader(0, 0, 0, DataType.NONE, 0)
        self._body = bytearray()

    def begin_buffer(self, header: BufferHeader) -> memoryview | None:
        self.bodies_begun += 1
        if header.channel in self._skipped:
            return None
        self._header = header
        self._body = bytearray(header.size)
        return memoryview(self._body)

    def end_buffer(self) -> None:
        self.events.append(buffer_event(self._header, bytes(self._body)))

    def on_credit(self, channel: int, credit: int) -> None:
        self.on_message(MessageType.ADD_CREDIT, (channel, credit))

    def on_message(self, message_type: MessageType, fields: tuple[int | bytes, ...]) -> None:
        self.events.append((message_type, *fields))

    def on_error_response(self, channel: int, code: int, text: str) -> None:
        self.events.append((MessageType.ERROR_RESPONSE, channel, code, text))


def make_decoder(
    received: Received,
    *,
    limits: WireLimits | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    receive_buffer_bytes: int = 4096,
    turn_messages_max: int = 1000,
    checksums: bool = False,
) -> FrameDecoder:
    """Make a decoder for small segments."""
    decoder = ChecksummedFrameDecoder if checksums else FrameDecoder
    return decoder(
        received,
        received,
        limits if limits is not None else WireLimits(),
        segment_bytes=segment_bytes,
        receive_buffer_bytes=receive_buffer_bytes,
        turn_messages_max=turn_messages_max,
    )


def decode(data: bytes, **options: Any) -> list[tuple[Any, ...]]:
    """Return the events in ``data``, which must end with its last message.

    The heartbeat behind it would not be decoded otherwise.
    """
    received = Received()
    decoder = make_decoder(received, **options)
    decoder.feed(data + HEARTBEAT)
    assert received.events[-1:] == [(MessageType.HEARTBEAT,)], "the data ends inside a message"
    return received.events[:-1]


def u32(number: int) -> bytes:
    """Encode a msgpack integer of the fixed width that SPEC prescribes."""
    return b"\xce" + number.to_bytes(4, "big")


def buffer_response(
    channel: int = 0,
    sequence: int = 0,
    backlog: int = 0,
    data_type: int = DataType.DATA_BUFFER_WITH_CLEAR_END,
    body: bytes = b"\x01",
    *,
    size: int | None = None,
    continued: int = 0,
    unfinished: int | None = None,
    records: int = 0,
) -> bytes:
    """Encode a BufferResponse; with ``size``, its header claims another length of the body.

    By default the whole body of a DATA_BUFFER is the beginning of a record.
    """
    size = len(body) if size is None else size
    if unfinished is None:
        unfinished = size - continued if data_type == DataType.DATA_BUFFER else 0
    head = b"\x98\x00" + u32(channel) + u32(sequence) + u32(backlog) + bytes([data_type])
    head += u32(continued) + u32(unfinished) + u32(records)
    return head + b"\xc6" + size.to_bytes(4, "big") + body


def error_response(channel: int, code: int, text: bytes, *, size: int | None = None) -> bytes:
    """Encode an ErrorResponse."""
    size = len(text) if size is None else size
    return b"\x94\x01" + u32(channel) + bytes([code]) + b"\xda" + size.to_bytes(2, "big") + text


def partition_request(
    channel: int = 0, partition: bytes = bytes(16), subpartition: int = 0, credit: int = 2
) -> bytes:
    """Encode a PartitionRequest."""
    return b"\x95\x02" + u32(channel) + b"\xc4\x10" + partition + u32(subpartition) + u32(credit)


def about(message_type: MessageType, channel: int, *numbers: int) -> bytes:
    """Encode a message of integers about one channel."""
    head = bytes([0x92 + len(numbers), message_type])
    return head + b"".join(map(u32, (channel, *numbers)))

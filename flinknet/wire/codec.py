"""The codec: messages to bytes, and an incremental decoder from bytes to messages.

Theory of operation. The decoder is in one of two states: *header* (waiting for the rest of a
message that is short and has no body, or for the prefix of one that has) and *body* (copying the
payload of a BufferResponse straight into the memory that the receiver named for it, or skipping
it). A length is judged as soon as the prefix is complete, before anything is allocated for it.
After an error the decoder is *poisoned* and refuses everything: the place in the stream is lost.

The receivers of messages are given as objects with one method per event, so that the hot path
makes no intermediate message objects. Buffers have a receiver of their own, whose class is compiled
where the decoder is, so that the two call each other as C does.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.errors import RemoteProtocolError
from flinknet.texts import printable
from flinknet.wire.buffer_header import (
    BUFFER_PREFIX_BYTES,
    CREDIT_BYTES,
    BufferHeader,
    copy_body,
    read_buffer_header,
    read_credit,
)
from flinknet.wire.messages import LAYOUTS, Layout, MessageType

__all__ = [
    "BufferReceiver",
    "FrameDecoder",
    "MessageReceiver",
    "Stall",
    "encode",
    "encode_error",
]

_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_FIXINT_MAX = 0x7F


class Stall(Enum):
    """Why the decoder stalls in front of a frame: ``begin_buffer`` has no memory for it now."""

    FOR_MEMORY = "for memory"


_FOR_MEMORY = Stall.FOR_MEMORY


class BufferReceiver:
    """Whoever finds the memory for buffers: the base of one end of a connection."""

    def begin_buffer(self, header: BufferHeader) -> memoryview | Stall | None:
        """Return ``header.size`` bytes of memory for the body, or None to skip it.

        ``Stall.FOR_MEMORY`` stops the decoder in front of the frame: ``received`` asks again.
        """
        raise NotImplementedError

    def end_buffer(self) -> None:
        """The body that ``begin_buffer`` made room for is complete."""
        raise NotImplementedError


class MessageReceiver(Protocol):
    """Whoever handles the other messages: one end of a connection."""

    def on_credit(self, channel: int, credit: int) -> None:
        """AddCredit: the message that comes as often as buffers go."""

    def on_message(self, message_type: MessageType, fields: tuple[int | bytes, ...]) -> None:
        """Another message without a body arrived; ``fields`` are its variable fields in order."""

    def on_error_response(self, channel: int, code: int, text: str) -> None:
        """The peer reports an error."""


def encode(message_type: MessageType, *fields: int | bytes) -> bytes:
    """Encode a message that has no body."""
    return LAYOUTS[message_type].encode(*fields)


def encode_error(channel: int, code: int, text: str, limits: WireLimits) -> bytes:
    """Encode an ErrorResponse; the text is made printable, and cut to the limit at a character
    boundary."""
    raw = printable(text).encode()[: limits.error_text_bytes_max].decode(errors="ignore").encode()
    return LAYOUTS[MessageType.ERROR_RESPONSE].encode(channel, code, len(raw)) + raw


class FrameDecoder:
    """Feeds messages to a receiver, whatever the pieces in which the bytes arrive.

    The caller reads into ``get_buffer()`` and says with ``received`` how much it read, as
    asyncio's BufferedProtocol does; a header that is cut off stays in that buffer, in front of
    what is read next. While a frame waits for memory nothing more may be read: what has been
    read stays where it is, and ``received(0)`` goes on with it. So it does after
    ``turn_messages_max`` messages, or ``end_turn``, which leave the decoder with ``has_more``.

    Another ``receiver``, and another one of ``buffers``, may take over with the next message, from
    within a message.
    """

    __slots__ = (
        "_body",
        "_body_filled",
        "_body_missing",
        "_end",
        "_failure",
        "_limits",
        "_memory",
        "_segment_bytes",
        "_start",
        "_turn_ends",
        "_turn_messages_max",
        "_waiting",
        "buffers",
        "has_more",
        "receiver",
    )

    def __init__(
        self,
        receiver: MessageReceiver,
        buffers: BufferReceiver,
        limits: WireLimits,
        *,
        segment_bytes: int,
        receive_buffer_bytes: int,
        turn_messages_max: int = 2**31,
    ) -> None:
        self.has_more = False
        """Whether ``received`` stopped because it had handled enough."""
        self._turn_messages_max = turn_messages_max
        self._turn_ends = False
        self.receiver = receiver
        self.buffers = buffers
        self._limits = limits
        self._segment_bytes = segment_bytes
        self._memory = memoryview(bytearray(receive_buffer_bytes))
        self._start = self._end = 0
        self._waiting = False
        self._body: memoryview | None = None
        self._body_filled = 0
        self._body_missing = 0
        self._failure: RemoteProtocolError | None = None

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return memory to read into, of any size; valid until the next call of ``received``."""
        return self._memory[self._end :]

    def received(self, size: int) -> None:
        """Decode ``size`` bytes that were read into ``get_buffer()``. Raises
        RemoteProtocolError."""
        if self._failure is not None:
            raise self._failure
        start, end = self._start, self._end + size
        self._turn_ends = False
        try:
            start = self._decode(self._content(), start, end)
        except RemoteProtocolError as failure:
            self._failure = failure
            self._start = self._end = 0  # what still comes is read here, and not decoded
            self.release()
            raise
        if start == end:
            start = end = 0
        elif start > 0 and not (self._waiting or self.has_more):
            self._memory[: end - start] = self._memory[start:end]
            start, end = 0, end - start
        self._start, self._end = start, end

    def end_turn(self) -> None:
        """Handle nothing more in this call; to be called from within a message without a body."""
        self._turn_ends = True

    @property
    def body_missing(self) -> int:
        """How many bytes of a body have not come yet."""
        return self._body_missing

    def feed(self, data: bytes | memoryview) -> None:
        """Decode ``data`` of any length by way of ``get_buffer``."""
        source = memoryview(data)
        while source:
            target = self.get_buffer()
            size = min(len(target), len(source))
            target[:size] = source[:size]
            self.received(size)
            while self.has_more:
                self.received(0)
            source = source[size:]

    def release(self) -> None:
        """Let go of a body that is only part filled."""
        if self._body is not None:
            self._body.release()
            self._body = None

    def _content(self) -> bytearray:
        """What the memory is of: to be read without a view."""
        content = self._memory.obj
        assert isinstance(content, bytearray)
        return content

    def _decode(self, data: bytearray, start: int, end: int) -> int:
        """Handle every complete message in part of the memory, up to as many as a turn may have,
        and return where the next one begins."""
        position = start + self._continue_body(start, end) if self._body_missing else start
        self._waiting = self.has_more = False
        for _ in range(self._turn_messages_max):
            missing = self._body_missing > 0 or self._waiting
            if missing or end - position < 2:
                break
            if end - position >= BUFFER_PREFIX_BYTES:
                header = read_buffer_header(data, position)
                if header is not None:
                    position = self._begin_buffer(header, position, end)
                    continue
            if end - position >= CREDIT_BYTES:
                given = read_credit(data, position)
                if given is not None:
                    self.receiver.on_credit(*given)
                    position += CREDIT_BYTES
                    continue
            advanced = self._control(data, position, end)
            if advanced == position:
                break
            position = advanced
            if self._turn_ends:
                self.has_more = position < end
                break
        else:
            self.has_more = position < end and not self._waiting
        return position

    def _layout(self, array_header: int, type_id: int) -> Layout:
        layout = LAYOUTS.get(type_id)
        if layout is None:
            raise RemoteProtocolError(f"the peer sent a message of unknown type {type_id}")
        if array_header != layout.constants[0][1]:
            raise RemoteProtocolError(
                f"the peer sent {layout.message_type.name} with array header {array_header:#04x} "
                f"instead of {layout.constants[0][1]:#04x}"
            )
        return layout

    def _begin_buffer(self, header: BufferHeader, start: int, end: int) -> int:
        self._check_buffer(header)
        body = self.buffers.begin_buffer(header)
        if body is _FOR_MEMORY:
            self._waiting = True
            return start
        body_start = start + BUFFER_PREFIX_BYTES
        body_end = body_start + header.size
        here = min(body_end, end)
        if body is not None:
            copy_body(self._memory, body_start, here, body, 0)
        if here < body_end:
            self._body = body
            self._body_filled = here - body_start
            self._body_missing = body_end - here
        elif body is not None:
            body.release()
            self.buffers.end_buffer()
        return here

    def _check_buffer(self, header: BufferHeader) -> None:
        """Judge what a header says of its body. Raises RemoteProtocolError."""
        channel, data_type, size = header.channel, header.data_type, header.size
        continued, unfinished, records = header.continued, header.unfinished, header.records
        is_plain = data_type is _DATA_WITH_CLEAR_END and not continued and not unfinished
        if is_plain and records <= size <= self._segment_bytes:
            return
        limit = self._segment_bytes if data_type.is_buffer else self._limits.event_bytes_max
        if size > limit:
            raise RemoteProtocolError(
                f"the peer announced {data_type.name} of {size} bytes on channel {channel}; the "
                f"limit is {limit} bytes"
            )
        if data_type is _DATA:
            cut = continued + unfinished <= size and (unfinished > 0 or continued == size)
        elif data_type.is_buffer:
            cut = continued <= size and not unfinished
        else:
            cut = not (continued or unfinished)
        if not cut:
            raise RemoteProtocolError(
                f"the peer announced {data_type.name} of {size} bytes on channel {channel}, which "
                f"cannot be cut after {continued} and before the last {unfinished} bytes"
            )
        if records > size - continued - unfinished or (records and data_type.is_event):
            raise RemoteProtocolError(
                f"the peer announced {data_type.name} of {size} bytes on channel {channel}, where "
                f"{records} records have no place"
            )

    def _check_text(self, size: int) -> None:
        if size > self._limits.error_text_bytes_max:
            raise RemoteProtocolError(
                f"the peer announced an error text of {size} bytes; the limit is "
                f"{self._limits.error_text_bytes_max} bytes"
            )

    def _continue_body(self, start: int, end: int) -> int:
        """Take what belongs to the body that has begun; return how many bytes that was."""
        size = min(self._body_missing, end - start)
        if self._body is not None:
            copy_body(self._memory, start, start + size, self._body, self._body_filled)
        self._body_filled += size
        self._body_missing -= size
        if not self._body_missing and self._body is not None:
            self._body.release()
            self._body = None
            self.buffers.end_buffer()
        return size

    def _control(self, data: bytearray, start: int, end: int) -> int:
        """Handle another message if all of it is here; return where the next one begins."""
        layout = self._layout(data[start], data[start + 1])
        prefix_end: int = start + layout.struct.size
        if prefix_end > end:
            return start
        fields = layout.decode(data, start)
        if fields is None:
            raise RemoteProtocolError(
                f"the peer sent a {layout.message_type.name} header of the wrong form"
            )
        if layout.body_marker is None:
            self.receiver.on_message(layout.message_type, fields)
            return prefix_end
        channel, code, size = fields
        if not 0 < code <= _FIXINT_MAX:
            raise RemoteProtocolError("the peer sent an ERROR_RESPONSE header of the wrong form")
        self._check_text(size)
        if prefix_end + size > end:
            return start
        try:
            text = data[prefix_end : prefix_end + size].decode()
        except UnicodeDecodeError:
            raise RemoteProtocolError("the peer sent an error text that is not UTF-8") from None
        self.receiver.on_error_response(channel, code, printable(text))
        return prefix_end + int(size)

"""The codec: encodes messages, and decodes them incrementally.

The decoder has two states. In *header*, it waits for the rest of a short message without a body, or
for the prefix of a message with a body. In *body*, it copies the payload of a BufferResponse
directly into the receiver's memory, or skips it. A length is checked as soon as the prefix is
complete, before any allocation. After an error the decoder is *poisoned* and rejects all input,
because its position in the stream is lost.

A receiver is an object with one method per event, so the hot path creates no message objects.
Buffers have their own receiver. Its class is compiled together with the decoder, so the two make C
calls to each other.
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
    """Reason why the decoder stops in front of a frame: no memory is available for it."""

    FOR_MEMORY = "for memory"


_FOR_MEMORY = Stall.FOR_MEMORY


class BufferReceiver:
    """Provides the memory for buffers: the base class of one end of a connection."""

    def begin_buffer(self, header: BufferHeader) -> memoryview | Stall | None:
        """Return ``header.size`` bytes of memory for the body, or None to skip it.

        ``Stall.FOR_MEMORY`` stops the decoder in front of the frame; ``received`` asks again.
        """
        raise NotImplementedError

    def end_buffer(self) -> None:
        """Handle the completion of the body that ``begin_buffer`` provided memory for."""
        raise NotImplementedError


class MessageReceiver(Protocol):
    """Handles the other messages: one end of a connection."""

    def on_credit(self, channel: int, credit: int) -> None:
        """Handle an AddCredit, which is as frequent as buffers."""

    def on_message(self, message_type: MessageType, fields: tuple[int | bytes, ...]) -> None:
        """Handle another message without a body; ``fields`` are its variable fields in order."""

    def on_error_response(self, channel: int, code: int, text: str) -> None:
        """Handle an error that the peer reports."""


def encode(message_type: MessageType, *fields: int | bytes) -> bytes:
    """Encode a message without a body."""
    return LAYOUTS[message_type].encode(*fields)


def encode_error(channel: int, code: int, text: str, limits: WireLimits) -> bytes:
    """Encode an ErrorResponse.

    The text is made printable, and cut to the limit at a character boundary.
    """
    raw = printable(text).encode()[: limits.error_text_bytes_max].decode(errors="ignore").encode()
    return LAYOUTS[MessageType.ERROR_RESPONSE].encode(channel, code, len(raw)) + raw


class FrameDecoder:
    """Feeds messages to a receiver, however the bytes are split on arrival.

    The caller reads into ``get_buffer()`` and passes the size to ``received``, as asyncio's
    BufferedProtocol does. An incomplete header stays in that buffer, in front of the next bytes.

    While a frame waits for memory, the caller must not read more. The bytes read so far stay in
    place, and ``received(0)`` continues with them. The same holds after ``turn_messages_max``
    messages or ``end_turn``, which set ``has_more``.

    ``receiver`` and ``buffers`` may be replaced from within a message, for the next message on.
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
        """Whether ``received`` stopped at its limit with messages left."""
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
        """Decode ``size`` bytes that were read into ``get_buffer()``.

        Raises:
            RemoteProtocolError: If the peer breaks the protocol; every later call raises it too.
        """
        if self._failure is not None:
            raise self._failure
        start, end = self._start, self._end + size
        self._turn_ends = False
        try:
            start = self._decode(self._content(), start, end)
        except RemoteProtocolError as failure:
            self._failure = failure
            self._start = self._end = 0  # later bytes are read here but not decoded
            self.release()
            raise
        if start == end:
            start = end = 0
        # An incomplete message needs room behind it. Messages that wait for a later call need none,
        # because nothing is read before they are handled.
        elif start > 0 and not (self._waiting or self.has_more):
            self._memory[: end - start] = self._memory[start:end]
            start, end = 0, end - start
        self._start, self._end = start, end

    def end_turn(self) -> None:
        """End the current call after this message; call it from a message without a body."""
        self._turn_ends = True

    @property
    def body_missing(self) -> int:
        """Bytes of the current body that have not arrived yet."""
        return self._body_missing

    def feed(self, data: bytes | memoryview) -> None:
        """Decode ``data`` of any length through ``get_buffer``."""
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
        """Release the memory of a partly filled body."""
        if self._body is not None:
            self._body.release()
            self._body = None

    def _content(self) -> bytearray:
        """Return the receive buffer's bytearray, which can be read without a view."""
        content = self._memory.obj
        assert isinstance(content, bytearray)
        return content

    def _decode(self, data: bytearray, start: int, end: int) -> int:
        """Handle the complete messages in the range, up to the limit of a turn.

        Returns the position of the next message.
        """
        position = start + self._continue_body(start, end) if self._body_missing else start
        self._waiting = self.has_more = False
        for _ in range(self._turn_messages_max):
            missing = self._body_missing > 0 or self._waiting
            # The first two bytes of a message determine its type.
            if missing or end - position < 2:
                break
            # Buffers and credit are the most frequent messages.
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
        """Check the fields of a header against each other and the limits.

        Raises:
            RemoteProtocolError: If they are invalid.
        """
        channel, data_type, size = header.channel, header.data_type, header.size
        continued, unfinished, records = header.continued, header.unfinished, header.records
        # The frequent case first: whole records only, for which all checks below hold.
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
            # The buffer ends inside a record, which begins here or fills the whole buffer.
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
        """Take the available bytes of the current body; return their number."""
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
        """Handle another message if it is complete; return the position of the next message."""
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
        # Before the text is complete, so that nothing is kept for a text that is too long.
        self._check_text(size)
        if prefix_end + size > end:
            return start
        try:
            text = data[prefix_end : prefix_end + size].decode()
        except UnicodeDecodeError:
            raise RemoteProtocolError("the peer sent an error text that is not UTF-8") from None
        self.receiver.on_error_response(channel, code, printable(text))
        return prefix_end + int(size)

"""The codec: messages to bytes, and an incremental decoder from bytes to messages.

Theory of operation. The decoder is in one of two states: *header* (waiting for the rest of a
message that is short and has no body, or for the prefix of one that has) and *body* (copying the
payload of a BufferResponse straight into the memory that the receiver named for it, or skipping
it). A length is judged as soon as the prefix is complete, before anything is allocated for it.
After an error the decoder is *poisoned* and refuses everything: the place in the stream is lost.

The receiver of messages is given as an object with one method per event, so that the hot path
makes no intermediate message objects.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from struct import Struct
from typing import Protocol

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.errors import RemoteProtocolError
from flinknet.texts import printable
from flinknet.wire.messages import BODY_BIN32, LAYOUTS, BufferHeader, Layout, MessageType

__all__ = [
    "BUFFER_PREFIX_BYTES",
    "FrameDecoder",
    "MessageReceiver",
    "Stall",
    "encode",
    "encode_buffer_header",
    "encode_credit",
    "encode_error",
    "unpack_buffer_prefix",
]

_BUFFER_LAYOUT = LAYOUTS[MessageType.BUFFER_RESPONSE]
_BUFFER_STRUCT: Struct = _BUFFER_LAYOUT.struct
BUFFER_PREFIX_BYTES = _BUFFER_STRUCT.size
_BUFFER_ARRAY, _BUFFER_RESPONSE = (constant for _, constant in _BUFFER_LAYOUT.constants[:2])
unpack_buffer_prefix = _BUFFER_STRUCT.unpack_from
_make_header = partial(tuple.__new__, BufferHeader)
_CREDIT_LAYOUT = LAYOUTS[MessageType.ADD_CREDIT]
_CREDIT_STRUCT: Struct = _CREDIT_LAYOUT.struct
_CREDIT_BYTES = _CREDIT_STRUCT.size
_unpack_credit = _CREDIT_STRUCT.unpack_from
_CREDIT_ARRAY, _ADD_CREDIT = (constant for _, constant in _CREDIT_LAYOUT.constants[:2])
_DATA_TYPES: tuple[DataType, ...] = tuple(DataType)
_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_FIXINT_MAX = 0x7F
_WRONG_CREDIT = "the peer sent an ADD_CREDIT header of the wrong form"


class Stall(Enum):
    """Why the decoder stalls in front of a frame: ``begin_buffer`` has no memory for it now."""

    FOR_MEMORY = "for memory"


_FOR_MEMORY = Stall.FOR_MEMORY


class MessageReceiver(Protocol):
    """Whoever handles decoded messages: one end of a connection."""

    def begin_buffer(self, header: BufferHeader) -> memoryview | Stall | None:
        """Return ``header.size`` bytes of memory for the body, or None to skip it.

        ``Stall.FOR_MEMORY`` stops the decoder in front of the frame: ``received`` asks again.
        """

    def end_buffer(self) -> None:
        """The body that ``begin_buffer`` made room for is complete."""

    def on_credit(self, channel: int, credit: int) -> None:
        """AddCredit: the message that comes as often as buffers go."""

    def on_message(self, message_type: MessageType, fields: tuple[int | bytes, ...]) -> None:
        """Another message without a body arrived; ``fields`` are its variable fields in order."""

    def on_error_response(self, channel: int, code: int, text: str) -> None:
        """The peer reports an error."""


def encode(message_type: MessageType, *fields: int | bytes) -> bytes:
    """Encode a message that has no body."""
    return LAYOUTS[message_type].encode(*fields)


def encode_buffer_header(
    channel: int,
    sequence: int,
    backlog: int,
    data_type: DataType,
    size: int,
    continued: int = 0,
    unfinished: int = 0,
    records: int = 0,
) -> bytes:
    """Encode the header of a BufferResponse, whose fields are those of ``BufferHeader``; ``size``
    bytes of body must follow."""
    return _BUFFER_STRUCT.pack(
        0x98,
        0,
        0xCE,
        channel,
        0xCE,
        sequence,
        0xCE,
        backlog,
        data_type,
        0xCE,
        continued,
        0xCE,
        unfinished,
        0xCE,
        records,
        BODY_BIN32,
        size,
    )


def encode_credit(channel: int, credit: int) -> bytes:
    """Encode an AddCredit."""
    return _CREDIT_STRUCT.pack(_CREDIT_ARRAY, _ADD_CREDIT, 0xCE, channel, 0xCE, credit)


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
    ``turn_messages_max`` messages, which leave the decoder with ``has_more``.

    Another ``receiver`` may take over with the next message, from within a message.
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
        "_turn_messages_max",
        "_waiting",
        "has_more",
        "receiver",
    )

    def __init__(
        self,
        receiver: MessageReceiver,
        limits: WireLimits,
        *,
        segment_bytes: int,
        receive_buffer_bytes: int,
        turn_messages_max: int = 2**31,
    ) -> None:
        self.has_more = False
        """Whether ``received`` stopped because it had handled enough."""
        self._turn_messages_max = turn_messages_max
        self.receiver = receiver
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
        try:
            start += self._decode(self._memory[start:end])
        except RemoteProtocolError as failure:
            self._failure = failure
            self.release()
            raise
        if start == end:
            start = end = 0
        elif start > 0 and not (self._waiting or self.has_more):
            self._memory[: end - start] = self._memory[start:end]
            start, end = 0, end - start
        self._start, self._end = start, end

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

    def _decode(self, data: memoryview) -> int:
        """Handle every complete message, up to as many as a turn may have, and return how many
        bytes that took."""
        position = self._continue_body(data) if self._body_missing else 0
        end = len(data)
        self._waiting = self.has_more = False
        for _ in range(self._turn_messages_max):
            if end - position < 2 or self._body_missing or self._waiting:
                break
            type_id = data[position + 1]
            if type_id == _BUFFER_RESPONSE and data[position] == _BUFFER_ARRAY:
                if end - position < BUFFER_PREFIX_BYTES:
                    break
                position = self._begin_buffer(data, position, end)
                continue
            if type_id == _ADD_CREDIT and data[position] == _CREDIT_ARRAY:
                if end - position < _CREDIT_BYTES:
                    break
                _, _, mark1, channel, mark2, credit = _unpack_credit(data, position)
                if not mark1 == mark2 == 0xCE:
                    raise RemoteProtocolError(_WRONG_CREDIT)
                self.receiver.on_credit(channel, credit)
                position += _CREDIT_BYTES
                continue
            layout = self._layout(data[position], type_id)
            prefix_end = position + layout.struct.size
            if prefix_end > end:
                break
            advanced = self._control(layout, data, position, prefix_end, end)
            if advanced == position:
                break
            position = advanced
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

    def _begin_buffer(self, data: memoryview, start: int, end: int) -> int:
        prefix_end = start + BUFFER_PREFIX_BYTES
        header = self._buffer_header(unpack_buffer_prefix(data, start))
        body = self.receiver.begin_buffer(header)
        if body is _FOR_MEMORY:
            self._waiting = True
            return start
        body_end: int = prefix_end + header.size
        if body_end <= end:
            if body is not None:
                body[:] = data[prefix_end:body_end]
                body.release()
                self.receiver.end_buffer()
            return body_end
        self._body = body
        self._body_filled = end - prefix_end
        self._body_missing = body_end - end
        if body is not None:
            body[: self._body_filled] = data[prefix_end:end]
        return end

    def _buffer_header(self, items: tuple[int, ...]) -> BufferHeader:
        mark1, channel, mark2, sequence, mark3, backlog, ordinal = items[2:9]
        mark4, continued, mark5, unfinished, mark6, records, body_mark, size = items[9:]
        if not (
            mark1 == mark2 == mark3 == mark4 == mark5 == mark6 == 0xCE and body_mark == BODY_BIN32
        ):
            raise RemoteProtocolError("the peer sent a BUFFER_RESPONSE header of the wrong form")
        if not 0 < ordinal < len(_DATA_TYPES):
            raise RemoteProtocolError(f"the peer sent a buffer of unknown data type {ordinal}")
        data_type = _DATA_TYPES[ordinal]
        is_plain = data_type is _DATA_WITH_CLEAR_END and not continued
        if not (is_plain and not unfinished and records <= size <= self._segment_bytes):
            self._check_buffer(channel, data_type, size, continued, unfinished, records)
        return _make_header(
            (channel, sequence, backlog, data_type, size, continued, unfinished, records)
        )

    def _check_buffer(
        self,
        channel: int,
        data_type: DataType,
        size: int,
        continued: int,
        unfinished: int,
        records: int,
    ) -> None:
        """Judge what a header says of its body. Raises RemoteProtocolError."""
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

    def _continue_body(self, data: memoryview) -> int:
        size = min(self._body_missing, len(data))
        if self._body is not None:
            self._body[self._body_filled : self._body_filled + size] = data[:size]
        self._body_filled += size
        self._body_missing -= size
        if not self._body_missing and self._body is not None:
            self._body.release()
            self._body = None
            self.receiver.end_buffer()
        return size

    def _control(
        self, layout: Layout, data: memoryview, start: int, prefix_end: int, end: int
    ) -> int:
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
            text = bytes(data[prefix_end : prefix_end + size]).decode()
        except UnicodeDecodeError:
            raise RemoteProtocolError("the peer sent an error text that is not UTF-8") from None
        self.receiver.on_error_response(channel, code, printable(text))
        text_end: int = prefix_end + size
        return text_end

"""The decoder of a connection with checksums: no message counts before its trailer agrees.

A message without a body stays in the receive buffer until it and its trailer are complete and
agree. A body is copied to its destination as it arrives, as without checksums, and its checksum is
computed on the way. The receiver learns that the body is complete only when the trailer agrees. A
damaged header can request memory from the receiver, but this is harmless: the connection ends
before the memory is used.

A header that breaks a rule may be damaged, so its trailer is checked first. The decoder keeps the
*violation*, skips the body, and raises the violation only if the trailer agrees. This requires the
position of the trailer. An unknown message type, or a length over the limits, is therefore rejected
immediately.

The decoder has one more state than the plain one: *trailer* (the body is complete, its trailer is
not).
"""

from __future__ import annotations

from flinknet.config import WireLimits
from flinknet.errors import CorruptedDataError, RemoteProtocolError
from flinknet.wire.buffer_header import BUFFER_PREFIX_BYTES, copy_body, read_buffer_header
from flinknet.wire.checksum import TRAILER_BYTES, crc32c_between, decode_trailer
from flinknet.wire.codec import BufferReceiver, FrameDecoder, MessageReceiver, Stall
from flinknet.wire.messages import LAYOUTS, MessageType

__all__ = ["ChecksummedFrameDecoder"]

_FOR_MEMORY = Stall.FOR_MEMORY
_BUFFER_RESPONSE = MessageType.BUFFER_RESPONSE
_SIZE_BYTES = 4
"""Bytes of the body's length, the last field of its header."""


class ChecksummedFrameDecoder(FrameDecoder):
    """Feeds messages to a receiver once their checksums agree."""

    __slots__ = ("_crc", "_trailer_due", "_violation")

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
        super().__init__(
            receiver,
            buffers,
            limits,
            segment_bytes=segment_bytes,
            receive_buffer_bytes=receive_buffer_bytes,
            turn_messages_max=turn_messages_max,
        )
        self._crc = 0
        self._trailer_due = False
        self._violation: RemoteProtocolError | None = None
        """Violation in the header of the current buffer."""

    def _decode(self, data: bytearray, start: int, end: int) -> int:
        position = start + self._continue_body(start, end) if self._trailer_due else start
        self._waiting = self.has_more = False
        for _ in range(self._turn_messages_max):
            missing = self._trailer_due or self._waiting
            if missing or end - position < 2:
                break
            if data[position + 1] == _BUFFER_RESPONSE and end - position >= BUFFER_PREFIX_BYTES:
                position = self._begin_message_with_body(data, position, end)
                continue
            message_end = position + self._control_bytes(data, position, end)
            if message_end + TRAILER_BYTES > end:
                break
            self._check(crc32c_between(self._memory, position, message_end), message_end)
            # The plain decoder handles this one message.
            FrameDecoder._decode(self, data, position, message_end)
            position = message_end + TRAILER_BYTES
            if self._turn_ends:
                self.has_more = position < end
                break
        else:
            self.has_more = position < end
        return position

    def _control_bytes(self, data: bytearray, start: int, end: int) -> int:
        """Return the length of a message other than a BufferResponse, as far as it is known.

        All other rules are checked once the trailer agrees.

        Raises:
            RemoteProtocolError: If no such message exists, before anything is kept for it.
        """
        array_header, type_id = data[start], data[start + 1]
        layout = LAYOUTS.get(type_id) or self._layout(array_header, type_id)
        size: int = layout.struct.size
        if layout.body_marker is not None and end - start >= size:
            text_bytes = int.from_bytes(data[start + size - 2 : start + size], "big")
            self._check_text(text_bytes)
            size += text_bytes
        return size

    def _begin_message_with_body(self, data: bytearray, start: int, end: int) -> int:
        """Begin a BufferResponse; return the next position, or ``start`` if it must wait."""
        body_start = start + BUFFER_PREFIX_BYTES
        size = int.from_bytes(data[body_start - _SIZE_BYTES : body_start], "big")
        body = None
        try:
            header = read_buffer_header(data, start)
            if header is None:
                # Raises, because the array header is wrong.
                self._layout(data[start], data[start + 1])
            else:
                self._check_buffer(header)
                body = self.buffers.begin_buffer(header)
        except RemoteProtocolError as violation:
            # The header may be damaged, which only the trailer shows.
            # A length over the limits may itself be damaged, so its trailer is not waited for.
            if size > max(self._segment_bytes, self._limits.event_bytes_max):
                raise
            self._violation = violation
        if body is _FOR_MEMORY:
            self._waiting = True
            return start
        self._crc = 0
        self._body, self._body_filled, self._body_missing = body, 0, size
        self._trailer_due = True
        return body_start + self._take_body(start, body_start, end)

    def _continue_body(self, start: int, end: int) -> int:
        return self._take_body(start, start, end)

    def _take_body(self, begin: int, start: int, end: int) -> int:
        """Take the available bytes of a body and its trailer; return their number.

        They begin at ``start``. ``begin`` is the start of their header if it comes with them,
        because one checksum covers both.
        """
        size = min(self._body_missing, end - start)
        self._crc = crc32c_between(self._memory, begin, start + size, self._crc)
        if size and self._body is not None:
            copy_body(self._memory, start, start + size, self._body, self._body_filled)
        self._body_filled += size
        self._body_missing -= size
        if self._body_missing or end - start - size < TRAILER_BYTES:
            return size
        self._check(self._crc, start + size)
        self._trailer_due = False
        if self._violation is not None:
            raise self._violation
        if self._body is not None:
            self._body.release()
            self._body = None
            self.buffers.end_buffer()
        return size + TRAILER_BYTES

    def _check(self, crc: int, trailer_start: int) -> None:
        said = decode_trailer(self._memory, trailer_start)
        if said != crc:
            was = "no checksum" if said is None else f"{said:#010x}"
            raise CorruptedDataError(
                f"the peer sent a message whose checksum is {crc:#010x} and whose trailer has "
                f"{was}: it was damaged on its way: check the network, the machines and the "
                "devices between them"
            )

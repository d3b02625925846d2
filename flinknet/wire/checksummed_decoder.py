"""The decoder of a connection with checksums: nothing is believed before its trailer is here.

Theory of operation. A message without a body is decoded when all of it and its trailer have come
and agree; until then it stays in the receive buffer. A body is copied to its place as it comes, as
without checksums, and its checksum is computed on the way: only when the trailer agrees does the
receiver hear that the body is complete. Who is asked for memory by a damaged header loses nothing
by that: the connection does not live to use it.

One more state than the plain decoder's: *trailer* (the body is here, its trailer is not).
"""

from __future__ import annotations

from flinknet.config import WireLimits
from flinknet.errors import CorruptedDataError
from flinknet.wire.checksum import TRAILER_BYTES, crc32c, decode_trailer
from flinknet.wire.codec import (
    BUFFER_PREFIX_BYTES,
    FrameDecoder,
    MessageReceiver,
    Stall,
    unpack_buffer_prefix,
)
from flinknet.wire.messages import LAYOUTS, MessageType

__all__ = ["ChecksummedFrameDecoder"]

_FOR_MEMORY = Stall.FOR_MEMORY
_BUFFER_ARRAY, _BUFFER_RESPONSE = (
    constant for _, constant in LAYOUTS[MessageType.BUFFER_RESPONSE].constants[:2]
)


class ChecksummedFrameDecoder(FrameDecoder):
    """Feeds messages to a receiver once their checksums have been found right."""

    __slots__ = ("_crc", "_trailer_due")

    def __init__(
        self,
        receiver: MessageReceiver,
        limits: WireLimits,
        *,
        segment_bytes: int,
        receive_buffer_bytes: int,
        turn_messages_max: int = 2**31,
    ) -> None:
        super().__init__(
            receiver,
            limits,
            segment_bytes=segment_bytes,
            receive_buffer_bytes=receive_buffer_bytes,
            turn_messages_max=turn_messages_max,
        )
        self._crc = 0
        self._trailer_due = False

    def _decode(self, data: memoryview) -> int:
        position = self._continue_body(data) if self._trailer_due else 0
        end = len(data)
        self._waiting = self.has_more = False
        for _ in range(self._turn_messages_max):
            if end - position < 2 or self._trailer_due or self._waiting:
                break
            if data[position + 1] == _BUFFER_RESPONSE and data[position] == _BUFFER_ARRAY:
                if end - position < BUFFER_PREFIX_BYTES:
                    break
                position = self._begin_buffer(data, position, end)
                continue
            size = self._control_bytes(data, position, end)
            message_end = position + size
            if message_end + TRAILER_BYTES > end:
                break
            message = data[position:message_end]
            self._check(crc32c(message), data, message_end)
            super()._decode(message)
            position = message_end + TRAILER_BYTES
        else:
            self.has_more = position < end
        return position

    def _control_bytes(self, data: memoryview, start: int, end: int) -> int:
        """Return how long a message other than a BufferResponse is, as far as that can be known.

        Raises RemoteProtocolError for what can be none, before anything is kept for it.
        """
        layout = self._layout(data[start], data[start + 1])
        size: int = layout.struct.size
        if layout.body_marker is not None and end - start >= size:
            text_bytes = int.from_bytes(data[start + size - 2 : start + size], "big")
            self._check_text(text_bytes)
            size += text_bytes
        return size

    def _begin_buffer(self, data: memoryview, start: int, end: int) -> int:
        body_start = start + BUFFER_PREFIX_BYTES
        header = self._buffer_header(unpack_buffer_prefix(data, start))
        body = self.receiver.begin_buffer(header)
        if body is _FOR_MEMORY:
            self._waiting = True
            return start
        self._crc = crc32c(data[start:body_start])
        self._body, self._body_filled, self._body_missing = body, 0, header.size
        self._trailer_due = True
        return body_start + self._continue_body(data[body_start:end])

    def _continue_body(self, data: memoryview) -> int:
        size = min(self._body_missing, len(data))
        if size:
            part = bytes(data[:size])
            self._crc = crc32c(part, self._crc)
            if self._body is not None:
                self._body[self._body_filled : self._body_filled + size] = part
            self._body_filled += size
            self._body_missing -= size
        if self._body_missing or len(data) - size < TRAILER_BYTES:
            return size
        self._check(self._crc, data, size)
        self._trailer_due = False
        if self._body is not None:
            self._body.release()
            self._body = None
            self.receiver.end_buffer()
        return size + TRAILER_BYTES

    def _check(self, crc: int, data: memoryview, trailer_start: int) -> None:
        said = decode_trailer(data, trailer_start)
        if said != crc:
            was = "no checksum" if said is None else f"{said:#010x}"
            raise CorruptedDataError(
                f"the peer sent a message whose checksum is {crc:#010x} and behind which stands "
                f"{was}: it was damaged on its way, look at the network, the machines and what "
                f"stands between them"
            )

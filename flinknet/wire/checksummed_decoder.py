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
from flinknet.wire.buffer_header import (
    BUFFER_PREFIX_BYTES,
    BufferHeader,
    copy_body,
    read_buffer_header,
)
from flinknet.wire.checksum import TRAILER_BYTES, crc32c, decode_trailer
from flinknet.wire.codec import BufferReceiver, FrameDecoder, MessageReceiver, Stall

__all__ = ["ChecksummedFrameDecoder"]

_FOR_MEMORY = Stall.FOR_MEMORY


class ChecksummedFrameDecoder(FrameDecoder):
    """Feeds messages to a receiver once their checksums have been found right."""

    __slots__ = ("_crc", "_trailer_due")

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

    def _decode(self, data: bytearray, start: int, end: int) -> int:
        position = start + self._continue_body(start, end) if self._trailer_due else start
        self._waiting = self.has_more = False
        for _ in range(self._turn_messages_max):
            missing = self._trailer_due or self._waiting
            if missing or end - position < 2:
                break
            if end - position >= BUFFER_PREFIX_BYTES:
                header = read_buffer_header(data, position)
                if header is not None:
                    position = self._begin_buffer(header, position, end)
                    continue
            message_end = position + self._control_bytes(data, position, end)
            if message_end + TRAILER_BYTES > end:
                break
            with self._memory[position:message_end] as message:
                self._check(crc32c(message), message_end)
            FrameDecoder._decode(self, data, position, message_end)
            position = message_end + TRAILER_BYTES
        else:
            self.has_more = position < end
        return position

    def _control_bytes(self, data: bytearray, start: int, end: int) -> int:
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

    def _begin_buffer(self, header: BufferHeader, start: int, end: int) -> int:
        self._check_buffer(header)
        body = self.buffers.begin_buffer(header)
        if body is _FOR_MEMORY:
            self._waiting = True
            return start
        body_start = start + BUFFER_PREFIX_BYTES
        with self._memory[start:body_start] as prefix:
            self._crc = crc32c(prefix)
        self._body, self._body_filled, self._body_missing = body, 0, header.size
        self._trailer_due = True
        return body_start + self._continue_body(body_start, end)

    def _continue_body(self, start: int, end: int) -> int:
        size = min(self._body_missing, end - start)
        if size:
            with self._memory[start : start + size] as part:
                self._crc = crc32c(part, self._crc)
            if self._body is not None:
                copy_body(self._memory, start, start + size, self._body, self._body_filled)
            self._body_filled += size
            self._body_missing -= size
        if self._body_missing or end - start - size < TRAILER_BYTES:
            return size
        self._check(self._crc, start + size)
        self._trailer_due = False
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
                f"the peer sent a message whose checksum is {crc:#010x} and behind which stands "
                f"{was}: it was damaged on its way, look at the network, the machines and what "
                f"stands between them"
            )

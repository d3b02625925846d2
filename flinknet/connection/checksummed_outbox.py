"""The outbox of a connection with checksums: adds a trailer to every message.

Trailers are added when frames are handed out, so queues, turns and quanta are those of the plain
outbox. A trailer and the header behind it go to the socket in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinknet.connection.outbox import Outbox
from flinknet.wire.checksum import TRAILER_BYTES, make_trailer, seal

__all__ = ["ChecksummedOutbox"]


class ChecksummedOutbox(Outbox):
    """Outbox that adds the checksum behind each frame."""

    def next_frames(self, budget_bytes: int) -> list[bytes | memoryview]:
        """Return frames as the plain outbox does, with their trailers."""
        frames = Outbox.next_frames(self, budget_bytes)
        # Headers and bodies come in pairs. An odd number of frames begins with the control piece,
        # where ``_join`` has added the trailers.
        has_control = len(frames) % 2
        sealed: list[bytes | memoryview] = frames[:has_control]
        trailer = b""
        for position in range(has_control, len(frames), 2):
            header, body = bytes(frames[position]), frames[position + 1]
            sealed += (trailer + header, body)
            trailer = make_trailer(header, body)
        if trailer:
            sealed.append(trailer)
        self.bytes_out += len(frames) // 2 * TRAILER_BYTES
        return sealed

    def _join(self, messages: Iterable[bytes]) -> bytes:
        return b"".join(map(seal, messages))

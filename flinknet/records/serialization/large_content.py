"""Content of a large record while its pieces arrive.

The first piece tells the length. The compiled form (``large_content.pyx``) therefore allocates all
bytes at the beginning, and copies each piece to its final place. No other code sees the bytes
object before it is complete.
"""

from __future__ import annotations

__all__ = ["LargeContent"]


class LargeContent:
    """A content of ``length`` bytes, of which the first ``size`` have arrived."""

    __slots__ = ("_pieces", "length", "size")

    def __init__(self, length: int) -> None:
        self.length = length
        self.size = 0
        self._pieces: list[bytes] = []

    def append(self, data: memoryview, start: int, end: int) -> None:
        """Append a copy of a part of ``data``.

        Raises ValueError if it exceeds the missing bytes.
        """
        if not 0 <= start <= end <= len(data) or end - start > self.length - self.size:
            raise ValueError(
                f"bytes {start} to {end} of {len(data)} do not fit: {self.size} of {self.length} "
                "have arrived"
            )
        self._pieces.append(bytes(data[start:end]))
        self.size += end - start

    def part(self, start: int, end: int) -> bytes:
        """Return a copy of a part of the arrived bytes."""
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0][start:end] if self._pieces else b""

    def take(self) -> bytes:
        """Return the whole content, and drop it. Raises ValueError if bytes are missing."""
        if self.size != self.length:
            raise ValueError(f"{self.size} of {self.length} bytes have arrived")
        pieces, self._pieces = self._pieces, []
        self.length = self.size = 0
        return b"".join(pieces)

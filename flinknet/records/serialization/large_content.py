"""The content of a large record while its pieces come: its length is known from the first one on.

Compiled (``large_content.pyx``) each piece is copied to where it will stay: there are the bytes of
all from the beginning, which nobody sees before they are full.
"""

from __future__ import annotations

__all__ = ["LargeContent"]


class LargeContent:
    """``length`` bytes, of which the first ``size`` are there."""

    __slots__ = ("_pieces", "length", "size")

    def __init__(self, length: int) -> None:
        self.length = length
        self.size = 0
        self._pieces: list[bytes] = []

    def append(self, data: memoryview, start: int, end: int) -> None:
        """Add a copy of what stands there. Raises ValueError if that is more than is missing."""
        if not 0 <= start <= end <= len(data) or end - start > self.length - self.size:
            raise ValueError(
                f"bytes {start} to {end} of {len(data)} are not the next of {self.length}, of "
                f"which {self.size} are there"
            )
        self._pieces.append(bytes(data[start:end]))
        self.size += end - start

    def part(self, start: int, end: int) -> bytes:
        """Return a copy of some of what is there."""
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0][start:end] if self._pieces else b""

    def take(self) -> bytes:
        """Return all of it, which is given away. Raises ValueError if some is missing."""
        if self.size != self.length:
            raise ValueError(f"{self.size} bytes of {self.length} are there")
        pieces, self._pieces = self._pieces, []
        self.length = self.size = 0
        return b"".join(pieces)

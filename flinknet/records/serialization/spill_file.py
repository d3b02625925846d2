"""The spill file: where records that are too long for memory are put together.

Theory of operation. One file for a whole worker, divided into *extents* of the size of the largest
record, so that thousands of records on disk take one descriptor, and each lies in one piece that
can be mapped. The file is sparse: an extent takes the disk space that was ever written to it, and
nothing else limits the file, so that it can reach the largest record times the channels. It is
opened with the first extent and closed with the last, and it has no name (or loses it at once), so
it goes with the process however that ends.
"""

from __future__ import annotations

import os
import tempfile
from heapq import heappop, heappush
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from typing import IO, NoReturn

from flinknet.errors import SerializationError

__all__ = ["SpillFile"]


class SpillFile:
    """Extents of ``extent_bytes`` in a file without a name.

    Every method raises SerializationError if the disk refuses; the other extents are as before.

    Args:
        directory: where the file is made; the system's temporary directory if empty.
        extent_bytes: the most that can be written to an extent.
    """

    def __init__(self, directory: str, extent_bytes: int) -> None:
        self.extents = 0
        self._directory = directory
        self._stride = -(-extent_bytes // ALLOCATIONGRANULARITY) * ALLOCATIONGRANULARITY
        self._free: list[int] = []
        self._made = 0
        self._file: IO[bytes] | None = None

    def acquire(self) -> int:
        """Take an extent, the one nearest to the beginning of the file."""
        if self._file is None:
            try:
                self._file = tempfile.TemporaryFile(buffering=0, dir=self._directory or None)  # noqa: SIM115
            except OSError as error:
                self._refuse(error)
        self.extents += 1
        if self._free:
            return heappop(self._free)
        self._made += 1
        return self._made - 1

    def write(self, extent: int, position: int, data: memoryview, start: int, end: int) -> None:
        """Write part of ``data`` at a position in an extent."""
        offset = extent * self._stride + position - start
        try:
            while start < end:
                start += os.pwrite(self._descriptor, data[start:end], offset + start)
        except OSError as error:
            self._refuse(error)

    def map(self, extent: int, size: int) -> mmap:
        """Map what was written to an extent, without reading it; to be closed by the caller."""
        offset = extent * self._stride
        try:
            return mmap(self._descriptor, size, access=ACCESS_READ, offset=offset)
        except OSError as error:
            self._refuse(error)

    def release(self, extent: int) -> None:
        """Give an extent back; the last one gives the disk space of all back."""
        self.extents -= 1
        heappush(self._free, extent)
        if self.extents == 0 and self._file is not None:
            self._file.close()
            self._file = None
            self._free = []
            self._made = 0

    def check_invariants(self) -> None:
        """Raise AssertionError unless every extent is free or taken, once."""
        assert self.extents + len(self._free) == self._made
        assert len(set(self._free)) == len(self._free)
        assert (self._file is None) == (self.extents == 0)

    @property
    def _descriptor(self) -> int:
        assert self._file is not None, "no extent is taken"
        return self._file.fileno()

    def _refuse(self, error: OSError) -> NoReturn:
        where = self._directory or tempfile.tempdir or "the system's temporary directory"
        raise SerializationError(
            f"a long record cannot be put together on disk, in {where}: "
            f"{error.strerror or error}; free space there, choose another directory "
            f"(spill_directory), or keep records in memory (record_spill_bytes, "
            f"reassembly_memory_bytes)"
        ) from error

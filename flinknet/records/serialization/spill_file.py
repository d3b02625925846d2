"""The spill file, in which records too long for memory are reassembled.

Theory of operation. A worker has one file, divided into *extents* of the size of the largest
record. Thousands of records on disk therefore take one descriptor, and each record is contiguous
and can be mapped. The file is sparse: an extent takes as much disk space as was ever written to it.
The number of extents is not limited, so the file can grow to the largest record times the number of
channels. It is opened with the first extent and closed with the last. It has no name, or loses it
at once, so the system frees it however the process ends.
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

    Every method raises SerializationError if the disk fails; the other extents are unchanged.

    Args:
        directory: The directory of the file; the system's temporary directory if empty.
        extent_bytes: The maximum size of the data in an extent.
    """

    def __init__(self, directory: str, extent_bytes: int) -> None:
        self.extents = 0
        self._directory = directory
        # A mapping must begin at a multiple of the granularity.
        self._stride = -(-extent_bytes // ALLOCATIONGRANULARITY) * ALLOCATIONGRANULARITY
        self._free: list[int] = []
        self._made = 0
        self._file: IO[bytes] | None = None

    def acquire(self) -> int:
        """Return the free extent nearest to the beginning of the file, so that it stays short."""
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
            while start < end:  # a write may be short
                start += os.pwrite(self._descriptor, data[start:end], offset + start)
        except OSError as error:
            self._refuse(error)

    def map(self, extent: int, size: int) -> mmap:
        """Map the data of an extent, without reading it; the caller closes the mapping."""
        offset = extent * self._stride
        try:
            return mmap(self._descriptor, size, access=ACCESS_READ, offset=offset)
        except OSError as error:
            self._refuse(error)

    def release(self, extent: int) -> None:
        """Give an extent back. With the last extent, the disk space of all is freed."""
        self.extents -= 1
        heappush(self._free, extent)
        if self.extents == 0 and self._file is not None:
            self._file.close()
            self._file = None
            self._free = []
            self._made = 0

    def check_invariants(self) -> None:
        """Raise AssertionError unless every extent is either free or taken, once."""
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
            f"a long record cannot be assembled on disk, in {where}: {error.strerror or error}; "
            "free space there, choose another directory (spill_directory), or keep records in "
            "memory (record_spill_bytes, reassembly_memory_bytes)"
        ) from error

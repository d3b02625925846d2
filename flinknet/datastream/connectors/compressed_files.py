"""Reading of compressed files as decompressed bytes.

A compressed file may have several members, one after the other (``cat a.gz b.gz``, pbzip2).
Python's readers of bz2 and xz treat a damaged member after the first as the end of the file and
drop the rest. This module requires that each byte belongs to a member; otherwise it rejects the
file.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from flinknet.datastream.connectors.locations import Location, RemoteLocation
from flinknet.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["UNSUPPORTED", "kind_of", "open_decompressed", "suffix_of"]

READ_BYTES = 64 * 1024
"""Number of compressed bytes read at a time: a few of the disk's own reads."""

UNSUPPORTED = (".zip", ".lz4", ".sz", ".snappy", ".br", ".lzo", ".z", ".7z", ".deflate")
"""Suffixes of compressed files that no source can read."""


class _Members(io.RawIOBase):
    """The contents of all members of a compressed file, one after the other."""

    def __init__(self, opened: BinaryIO, member: Callable[[], Any], padding: bytes = b"") -> None:
        """Read members from ``opened``.

        ``member`` makes a decompressor for one member. ``padding`` bytes may separate members.
        """
        self._opened = opened
        self._new_member = member
        self._member = member()
        self._padding = padding

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def _next(self, size: int) -> bytes:
        """Return at most ``size`` bytes; an empty string at the end of the last member."""
        while True:
            read = b""
            if self._member.eof:
                read = self._begin_of_member()
                if not read:
                    return b""
                self._member = self._new_member()
            elif self._member.needs_input:
                read = self._opened.read(READ_BYTES)
                if not read:
                    raise EOFError("the file ends within a compressed member: it is cut off")
            # The size is limited, because a few bytes may expand to gigabytes.
            data: bytes = self._member.decompress(read, size)
            if data:
                return data

    def _begin_of_member(self) -> bytes:
        begin: bytes = self._member.unused_data.lstrip(self._padding)
        while not begin and (read := self._opened.read(READ_BYTES)):
            begin = read.lstrip(self._padding)
        return begin


def _zstandard(opened: BinaryIO) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ConfigurationError(
            "a .zst file is read with pyarrow: install flinknet[arrow], or decompress it"
        ) from error
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(opened, mode="r"), "zstd")


def _gzip(opened: BinaryIO) -> Any:
    return gzip.GzipFile(fileobj=opened)


DECOMPRESSED: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": _gzip,
    ".gzip": _gzip,
    ".bz2": lambda opened: _Members(opened, bz2.BZ2Decompressor),
    ".xz": lambda opened: _Members(opened, lzma.LZMADecompressor, b"\0"),
    ".zst": _zstandard,
}


def suffix_of(name: str) -> str:
    """Return a file's last suffix in lower case: ``.CSV`` becomes ``.csv``."""
    return PurePosixPath(name).suffix.lower()


def kind_of(file: Location) -> str:
    """Return the suffix for the content, which precedes the suffix of a compression."""
    suffix = suffix_of(file.name)
    if suffix in DECOMPRESSED or suffix in UNSUPPORTED:
        return suffix_of(PurePosixPath(file.name).stem)
    return suffix


@contextmanager
def open_decompressed(file: Location) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed according to its suffix.

    Reading raises EOFError, OSError or an error of the decompressor if the file is damaged.
    """
    suffix = suffix_of(file.name)
    if suffix in UNSUPPORTED:
        known = ", ".join(DECOMPRESSED)
        raise ConfigurationError(f"{file} is compressed as {suffix}: decompress it, or use {known}")
    decompress = DECOMPRESSED.get(suffix)
    with file.open() if isinstance(file, RemoteLocation) else file.open("rb") as opened:
        if decompress is None:
            yield opened
            return
        with decompress(opened) as raw, io.BufferedReader(raw) as content:
            if not content.peek(1) and not opened.tell():
                raise EOFError("the file is empty, without even the header of its compression")
            yield cast(BinaryIO, content)

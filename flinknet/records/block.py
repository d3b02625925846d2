"""Blocks: many records packed with one call.

Theory of operation. A list of records is packed as one msgpack array, and the array's header is cut
off. The remaining bytes equal the bytes of the records packed one by one, but take a fraction of
the calls. The number of records in a block is estimated from the size of the latest records. A
block that does not fit the rest of a buffer is cut between two records (``record_ends``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgpack

from flinknet.records.detached import Detachment, each_detached

__all__ = ["BlockPacker", "chunks", "record_ends"]

_BLOCK_RECORDS_MIN = 4
"""Smaller blocks gain too little."""

_BLOCK_RECORDS_MAX = 128
"""Larger blocks gain nothing."""

_BLOCK_BYTES_MAX = 8_192
"""Too many larger blocks would have to be cut: a default buffer has 32 KiB."""

CHUNK_RECORDS = 512
_FIXARRAY_MAX = 15


class BlockPacker:
    """Packer of blocks of records.

    ``bytes_max`` is the limit of a record. Blocks that are expected to exceed it are not packed.
    """

    __slots__ = ("_bytes_max", "_pack", "_record_bytes")

    def __init__(self, pack: Callable[[Any], bytes], bytes_max: int) -> None:
        self._pack = pack
        self._bytes_max = min(bytes_max, _BLOCK_BYTES_MAX)
        # No block is worthwhile until the size of a record is known.
        self._record_bytes = float(self._bytes_max)

    def observe(self, record_bytes: int) -> None:
        """Learn from the size of a record that was packed alone."""
        self._record_bytes = record_bytes

    @property
    def worthwhile(self) -> bool:
        """Whether the records packed last were small enough for blocks."""
        return self._record_bytes * _BLOCK_RECORDS_MIN <= self._bytes_max

    def records_in_block(self) -> int:
        """Return the number of records to pack together; 0 if a block is not worthwhile."""
        records = int(self._bytes_max / self._record_bytes)
        return min(records, _BLOCK_RECORDS_MAX) if records >= _BLOCK_RECORDS_MIN else 0

    def pack(self, records: list[Any]) -> memoryview:
        """Return the packed bytes of the records of a block, and learn their size.

        Raises SerializationError if a record cannot be serialised, or is nested too deeply inside
        an array.
        """
        # A block has too few records for the longest header, of five bytes.
        header_bytes = 1 if len(records) <= _FIXARRAY_MAX else 3
        block = memoryview(self._pack(records))[header_bytes:]
        self._record_bytes = len(block) / len(records)
        return block


def record_ends(block: memoryview) -> list[int]:
    """Return the offsets at which the records of a block end."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(block))
    unpacker.feed(block)
    ends = []
    while unpacker.tell() < len(block):
        unpacker.skip()
        ends.append(unpacker.tell())
    return ends


def chunks(records: Iterable[Any], size: int = CHUNK_RECORDS) -> Iterator[list[Any]]:
    """Split records into lists.

    If the iterable raises, the records before the error are yielded first. An iterable may yield
    the same object again after changing it. Its records are therefore detached: each keeps the
    state in which it was yielded (``detached.py``).
    """
    if type(records) is list:
        for start in range(0, len(records), size):
            yield records[start : start + size]
        return
    iterator = each_detached(records, Detachment.IF_POSSIBLE)
    while True:
        chunk: list[Any] = []
        try:
            chunk.extend(islice(iterator, size))
        except Exception:
            yield chunk
            raise
        if not chunk:
            return
        yield chunk

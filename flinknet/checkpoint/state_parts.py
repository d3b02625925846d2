"""Writing and reading of state parts.

A part is written from a sequence of labelled blocks. Consecutive blocks with the same label form
one section. A small part is kept in the metadata, and an empty one is omitted. A reader names the
labels that it needs and gets these sections, with verified checksums.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from itertools import chain

from flinknet.checkpoint.metadata import Label, Section, StatePart
from flinknet.checkpoint.storage import Storage
from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointCorruptedError, CheckpointError
from flinknet.wire.checksum import crc32c

__all__ = ["check_part", "read_sections", "write_part"]

READ_BYTES = 4 << 20
"""Maximum size in bytes of a single read; adjacent sections are read together up to it."""

JOINED_BYTES = 64 << 10
JOINED_BLOCKS_MAX = 500
"""Small blocks are joined up to this size or number, which takes half a millisecond. Each block on
its own would cost a checksum and a thread call."""


async def write_part(
    storage: Storage,
    path: str,
    blocks: Iterable[tuple[Label, bytes]],
    config: CheckpointingConfig,
) -> StatePart | None:
    """Write a part to ``path``, which ends with the part's name, or return it inline.

    ``blocks`` is iterated on the event loop, with pauses for other tasks between steps. A step
    takes one large block, or up to some thousand small ones, and should last no more than a
    millisecond or two.

    Returns None if there are no bytes at all. Raises CheckpointError beyond ``part_bytes_max``,
    CheckpointStorageError, and any error of ``blocks``; after an error nothing of the part is left.
    """
    content = _Content(path, config.part_bytes_max)
    passing = content.passing(blocks)
    # Keep the first blocks until they exceed the limit: a small part is stored in the metadata.
    first: list[bytes] = []
    for block in passing:
        first.append(block)
        if content.size_bytes > config.inline_bytes_max:
            await storage.write(path, chain(first, passing))
            return StatePart(tuple(content.sections), path.rpartition("/")[2])
    return StatePart(tuple(content.sections), None, b"".join(first)) if first else None


async def read_sections(
    storage: Storage, directory: str, part: StatePart, labels: Collection[Label] | None = None
) -> AsyncIterator[tuple[Label, bytes]]:
    """Yield label and content of a part's sections, in order: of the given labels, or of all.

    Raises CheckpointCorruptedError, which names the file, for a section that has changed.
    """
    name = f"{storage.location}/{directory}/{part.name or 'metadata'}"
    for start, sections in _adjacent(part, labels):
        length = sum(section.size_bytes for section in sections)
        if part.name is None:
            content = part.inline[start : start + length]
        else:
            content = await storage.read_range(f"{directory}/{part.name}", start, length)
        at = 0
        for section in sections:
            found = content[at : at + section.size_bytes]
            if len(found) != section.size_bytes or crc32c(found) != section.crc32c:
                raise _damaged(name, section)
            yield section.label, found
            at += section.size_bytes


async def check_part(storage: Storage, directory: str, part: StatePart) -> None:
    """Raise CheckpointCorruptedError unless all sections are as they were written."""
    name = f"{storage.location}/{directory}/{part.name or 'metadata'}"
    for section, start in part.offsets():
        checksum = 0
        for offset in range(0, section.size_bytes, READ_BYTES):
            length = min(READ_BYTES, section.size_bytes - offset)
            if part.name is None:
                found = part.inline[start + offset : start + offset + length]
            else:
                found = await storage.read_range(f"{directory}/{part.name}", start + offset, length)
            checksum = crc32c(found, checksum)
        if checksum != section.crc32c:
            raise _damaged(name, section)


def _damaged(name: str, section: Section) -> CheckpointCorruptedError:
    return CheckpointCorruptedError(
        f"{name} is damaged: the {section.size_bytes} bytes of {section.label!r} are not what was "
        "written"
    )


def _adjacent(
    part: StatePart, labels: Collection[Label] | None
) -> Iterator[tuple[int, list[Section]]]:
    """Yield runs of adjacent wanted sections with their offset, a few MiB at most per run."""
    start = end = 0
    run: list[Section] = []
    for section, offset in part.offsets():
        if labels is not None and section.label not in labels:
            continue
        if run and (offset != end or end + section.size_bytes - start > READ_BYTES):
            yield start, run
            run = []
        if not run:
            start = offset
        run.append(section)
        end = offset + section.size_bytes
    if run:
        yield start, run


class _Content:
    """The size and the sections of a part while its blocks are written."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self.size_bytes = 0
        self.sections: list[Section] = []
        self._path = path
        self._bytes_max = bytes_max

    def passing(self, blocks: Iterable[tuple[Label, bytes]]) -> Iterator[bytes]:
        """Yield the non-empty blocks and count them; small blocks of a section are joined."""
        waiting: list[bytes] = []
        size = 0
        label: Label | None = None
        for following, block in blocks:
            if waiting and (
                following != label or size >= JOINED_BYTES or len(waiting) >= JOINED_BLOCKS_MAX
            ):
                yield self._counted(label, waiting)
                waiting, size = [], 0
            label = following
            if block:
                waiting.append(block)
                size += len(block)
        if waiting:
            yield self._counted(label, waiting)

    def _counted(self, label: Label | None, blocks: list[bytes]) -> bytes:
        assert label is not None
        block = b"".join(blocks)
        self.size_bytes += len(block)
        if self.size_bytes > self._bytes_max:
            raise CheckpointError(
                f"the state part {self._path} takes more than {self._bytes_max} bytes: "
                "raise checkpointing.part_bytes_max, or the operator's parallelism"
            )
        if self.sections and self.sections[-1].label == label:
            before = self.sections.pop()
            size_bytes = before.size_bytes + len(block)
            self.sections.append(Section(label, size_bytes, crc32c(block, before.crc32c)))
        else:
            self.sections.append(Section(label, len(block), crc32c(block)))
        return block

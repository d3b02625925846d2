"""Who reads which share of a source, when a job goes on with another number of subtasks.

Theory of operation. A share is what one of so many subtasks reads, behind so many records. It stays
what it is, whoever reads it: a subtask may read the shares of several that were there before, or,
where there are more subtasks than shares, a part of one. A share can be cut only if records are
dealt out one by one: then every m-th record of what is left of it is a share, too, of more
subtasks. Where it cannot be cut, some subtasks have nothing to read.

Invariant: the shares of all subtasks together are what was left, each record once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Share", "shares_of"]


class Share(NamedTuple):
    """What ``subtask`` of so many ``subtasks`` has left to read behind ``position`` records."""

    subtask: int
    subtasks: int
    position: int = 0

    def part(self, number: int, parts: int) -> Share:
        """Return one of so many parts, of records that are dealt out one by one."""
        first = self.subtask + (self.position + number) * self.subtasks
        subtasks = self.subtasks * parts
        return Share(first % subtasks, subtasks, first // subtasks)


def shares_of(
    shares: Iterable[Share], index: int, parallelism: int, *, can_be_cut: bool
) -> list[Share]:
    """Return what subtask ``index`` of ``parallelism`` reads of all shares."""
    row: Sequence[Share] = sorted(shares)
    if not row:
        return []
    if len(row) >= parallelism:
        return list(row[index::parallelism])
    if not can_be_cut:
        return list(row[index : index + 1])
    readers = range(index % len(row), parallelism, len(row))
    return [row[index % len(row)].part(index // len(row), len(readers))]

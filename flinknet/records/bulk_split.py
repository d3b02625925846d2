"""Decides whether many records are divided among the channels before they are written.

Theory of operation. Writing a channel's share of a chunk costs less per record than choosing and
writing one record after the other, but each share has a cost of its own. After a chunk has split
into too many shares, the next 32 chunks are not divided. Then a chunk is tried again, because the
load may have changed.
"""

from __future__ import annotations

__all__ = ["BulkSplitHeuristic"]

SHARE_RECORDS_MIN = 4
"""Smaller shares gain too little."""

_CHUNKS_SKIPPED = 32


class BulkSplitHeuristic:
    """Statistics of the chunks of one writer."""

    __slots__ = ("_chunks_to_skip",)

    def __init__(self) -> None:
        self._chunks_to_skip = 0

    def is_worthwhile(self, records: int) -> bool:
        """Return whether to divide the next chunk of ``records`` records."""
        if records < SHARE_RECORDS_MIN:
            return False
        if self._chunks_to_skip:
            self._chunks_to_skip -= 1
            return False
        return True

    def observe(self, records: int, shares: int) -> None:
        """Learn into how many shares a chunk was split."""
        if shares * SHARE_RECORDS_MIN > records:
            self._chunks_to_skip = _CHUNKS_SKIPPED

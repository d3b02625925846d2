"""Whether many records are divided among the channels before they are written.

Theory of operation. To write a channel's share of a chunk takes less for each record than to choose
a channel, and to write, for one record after the other; but each share costs something, too. So
where a chunk has fallen to pieces the next ones are left alone for a while, and then one is tried
again: the load may be another one by then.
"""

from __future__ import annotations

__all__ = ["Division"]

SHARE_RECORDS_MIN = 4
"""Smaller shares gain too little."""

_CHUNKS_LEFT_ALONE = 32


class Division:
    """What has been learnt of the chunks of one writer."""

    __slots__ = ("_left_alone",)

    def __init__(self) -> None:
        self._left_alone = 0

    def wants(self, records: int) -> bool:
        """Whether to divide the next chunk, of so many records."""
        if records < SHARE_RECORDS_MIN:
            return False
        if self._left_alone:
            self._left_alone -= 1
            return False
        return True

    def observe(self, records: int, shares: int) -> None:
        """Learn into how many shares a chunk fell."""
        if shares * SHARE_RECORDS_MIN > records:
            self._left_alone = _CHUNKS_LEFT_ALONE

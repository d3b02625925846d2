"""Summary of a connection: sums over its readers instead of single readers.

A connection may have thousands of readers. They are read over several iterations of the event loop,
starting from the readers present at the beginning. A reader that is cancelled meanwhile has no
waiting buffers any more.
"""

from __future__ import annotations

from typing import NamedTuple

from flinknet.connection.link import ConnectionStatistics, Link
from flinknet.metrics.turns import Reading, Turns

__all__ = ["ConnectionTotals"]


class ConnectionTotals(NamedTuple):
    """A connection with sums over its readers."""

    connection: ConnectionStatistics
    readers: int
    credit: int
    """Free buffers at the peer for the data that this side sends."""
    backlog: int

    @classmethod
    def reading(cls, link: Link, turns: Turns) -> Reading[ConnectionTotals]:
        """Read a connection in parts."""
        connection = link.statistics(with_readers=False)
        readers = list(link.session.readers)
        credit = backlog = 0
        for part in turns.parts(readers):
            credit += sum([reader.credit for reader in part])
            backlog += sum([reader.backlog() for reader in part])
            yield
        return cls(connection, len(readers), credit, backlog)

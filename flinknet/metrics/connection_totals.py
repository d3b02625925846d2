"""A connection as it leaves its worker: without its readers, and sums over these.

Thousands of readers are read over several turns of the event loop, those that are there when the
reading begins; one that is cancelled meanwhile has nothing waiting for it any more.
"""

from __future__ import annotations

from typing import NamedTuple

from flinknet.connection.link import ConnectionStatistics, Link
from flinknet.metrics.turns import Reading, Turns

__all__ = ["ConnectionTotals"]


class ConnectionTotals(NamedTuple):
    """A connection, without its readers, and sums over these."""

    connection: ConnectionStatistics
    readers: int
    credit: int
    """Buffers that the peer has free for what this side sends."""
    backlog: int

    @classmethod
    def reading(cls, link: Link, turns: Turns) -> Reading[ConnectionTotals]:
        """Read a connection, in parts."""
        connection = link.statistics(with_readers=False)
        readers = list(link.session.readers)
        credit = backlog = 0
        for part in turns.parts(readers):
            credit += sum([reader.credit for reader in part])
            backlog += sum([reader.backlog() for reader in part])
            yield
        return cls(connection, len(readers), credit, backlog)

"""Registry of the partitions that embedding programs produce, and of their addresses.

Producers are programs that embed the exchange, and jobs that are connected to such programs. No I/O
and no clock. A name exists until its producer withdraws it or is gone. A new coordinator knows no
names, and the producers publish them again. A producer that has lost its connection may publish its
name again, under the same id, before the coordinator notices the loss. The end of the old
connection therefore withdraws only the publication that was made over it.

A producer that fails before its readers have connected leaves its error when it withdraws its name,
for the readers of some subpartitions. Each of these readers gets the error once. The number of
errors and their lifetime are bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["LeftFailure", "PublishedName", "PublishedNames"]


@dataclass(frozen=True)
class PublishedName:
    """The publication of one partition by one producer."""

    job: str
    name: str
    worker_id: str
    address: str


@dataclass(slots=True)
class LeftFailure:
    """The error of a producer that has failed.

    ``unread`` are the subpartitions with a reader that has yet to get the error; None means any
    reader. The error expires at the time ``until``.
    """

    code: int
    text: str
    unread: set[int] | None
    until: float


class PublishedNames:
    """The present names, by the id that the producer has chosen, and errors of failed producers.

    At most ``failures_max`` errors are kept.
    """

    def __init__(self, failures_max: int) -> None:
        self._published: dict[str, PublishedName] = {}
        self._failures: deque[tuple[PublishedName, LeftFailure]] = deque(maxlen=failures_max)

    def __len__(self) -> int:
        return len(self._published)

    def publish(self, publication_id: str, published: PublishedName) -> None:
        """Publish the address of a producer."""
        self._published[publication_id] = published
        # Errors that an earlier run of the same producer left do not apply any more.
        said = (published.job, published.name, published.worker_id)
        self._keep_failures(lambda name, _: (name.job, name.name, name.worker_id) != said)

    def leave(self, publication_id: str, failure: LeftFailure) -> None:
        """Withdraw the name of a producer that has failed, and keep its error."""
        published = self._published.pop(publication_id, None)
        if published is not None:
            self._failures.append((published, failure))

    def take_failure(
        self, job: str, name: str, subpartition: int, now: float
    ) -> LeftFailure | None:
        """Return an error left for the reader of a subpartition, and drop all such errors."""
        self._keep_failures(lambda _, failure: failure.until > now)
        found = [
            failure
            for published, failure in self._failures
            if (published.job, published.name) == (job, name)
            and (failure.unread is None or subpartition in failure.unread)
        ]
        for failure in found:
            if failure.unread is not None:
                failure.unread.remove(subpartition)
        self._keep_failures(lambda _, failure: failure.unread != set())
        return found[0] if found else None

    def _keep_failures(self, holds: Callable[[PublishedName, LeftFailure], bool]) -> None:
        kept = [each for each in self._failures if holds(*each)]
        self._failures = deque(kept, self._failures.maxlen)

    def withdraw(self, publication_id: str, published: PublishedName | None = None) -> None:
        """Withdraw a name, if it has not been withdrawn before.

        With ``published``, only that publication is withdrawn, not a later one under the same id.
        """
        if published is None or self._published.get(publication_id) is published:
            self._published.pop(publication_id, None)

    def addresses(self, job: str, name: str) -> list[str]:
        """Return the addresses of a partition's producers, ordered by worker id."""
        found = [
            (one.worker_id, one.address)
            for one in self._published.values()
            if (one.job, one.name) == (job, name)
        ]
        return [address for _, address in sorted(found)]

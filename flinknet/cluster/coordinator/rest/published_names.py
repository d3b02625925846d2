"""Which partitions are produced where, as their producers say.

They are programs that embed the exchange, and jobs that are joined with such.

No I/O and no clock. A name belongs to whoever has said it, and is here until that one takes it back
or is gone; a coordinator that is started anew knows none, and is told them again. A producer that
has lost its connection may have said its name anew, under the same id, before the coordinator
knows of the loss: the end of that connection takes back only what was said over it.

A producer that has failed before its readers had come leaves its error as it takes its name back,
for the readers of some subpartitions. Each of these readers gets it once. The number of errors is
bounded, and so is the time for which each is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["LeftFailure", "PublishedName", "PublishedNames"]


@dataclass(frozen=True)
class PublishedName:
    """What one producer says of one partition."""

    job: str
    name: str
    worker_id: str
    address: str


@dataclass(slots=True)
class LeftFailure:
    """The error of a producer that has failed.

    ``unread`` are the subpartitions whose readers have not got it, None if any reader may come.
    From the time ``until`` on it means nothing.
    """

    code: int
    text: str
    unread: set[int] | None
    until: float


class PublishedNames:
    """The present names, each under the id that its producer has made up for it, and up to
    ``failures_max`` errors of producers that are gone."""

    def __init__(self, failures_max: int) -> None:
        self._published: dict[str, PublishedName] = {}
        self._failures: deque[tuple[PublishedName, LeftFailure]] = deque(maxlen=failures_max)

    def __len__(self) -> int:
        return len(self._published)

    def publish(self, publication_id: str, published: PublishedName) -> None:
        """A producer says where it is."""
        self._published[publication_id] = published
        said = (published.job, published.name, published.worker_id)
        self._keep_failures(lambda name, _: (name.job, name.name, name.worker_id) != said)

    def leave(self, publication_id: str, failure: LeftFailure) -> None:
        """Take the name of a producer that has failed back, and keep its error."""
        published = self._published.pop(publication_id, None)
        if published is not None:
            self._failures.append((published, failure))

    def take_failure(
        self, job: str, name: str, subpartition: int, now: float
    ) -> LeftFailure | None:
        """Remove the errors that were left for the reader of a subpartition, and return one."""
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
        """It says so no more; it may have been withdrawn before. With ``published``, the one that
        was said: not if its producer has said it anew since."""
        if published is None or self._published.get(publication_id) is published:
            self._published.pop(publication_id, None)

    def addresses(self, job: str, name: str) -> list[str]:
        """Where the partition is produced, in the order of the workers' ids."""
        found = [
            (one.worker_id, one.address)
            for one in self._published.values()
            if (one.job, one.name) == (job, name)
        ]
        return [address for _, address in sorted(found)]

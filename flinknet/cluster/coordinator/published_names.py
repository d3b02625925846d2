"""Which partitions are produced where, as their producers say.

They are programs that embed the exchange, and jobs that are joined with such.

No I/O and no clock. A name belongs to whoever has said it, and is here until that one takes it back
or is gone; a coordinator that is started anew knows none, and is told them again. A producer that
has lost its connection may have said its name anew, under the same id, before the coordinator
knows of the loss: the end of that connection takes back only what was said over it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PublishedName", "PublishedNames"]


@dataclass(frozen=True)
class PublishedName:
    """What one producer says of one partition."""

    job: str
    name: str
    worker_id: str
    address: str


class PublishedNames:
    """The names that are there now, each under the id that its producer has made up for it."""

    def __init__(self) -> None:
        self._published: dict[str, PublishedName] = {}

    def __len__(self) -> int:
        return len(self._published)

    def publish(self, publication_id: str, published: PublishedName) -> None:
        """A producer says where it is."""
        self._published[publication_id] = published

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

"""A sample of the key groups of a subtask's records, which shows skewed keys in a busy subtask.

Theory of operation. One record of each batch is sampled, at a different position in each. This
costs one hash, and the key group with most records dominates the sample. Large batches are sampled
one in ``LARGE_BATCHES_EACH``, with a weight for the others, because all records of a sampled batch
must be unpacked at once, which costs an operator a tenth of its time. At ``SAMPLE_MAX`` all counts
are halved, so that old records fade. Channels of edges without a key are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import Any, TypeAlias

from flinknet.metrics.worker_statistics import KeyGroupCount

__all__ = ["KEY_GROUPS_TOLD_MAX", "SAMPLE_MAX", "KeyGroupOf", "KeyGroupSample"]

KeyGroupOf: TypeAlias = Callable[[Any], int]

SAMPLE_MAX = 1_000
"""Weight of the sampled batches after which all counts are halved."""

LARGE_BATCH_RECORDS = 64
"""Size from which a batch is large. Smaller batches unpack as fast at once as one by one."""

LARGE_BATCHES_EACH = 8
"""Number of large batches of which one is sampled."""

KEY_GROUPS_TOLD_MAX = 8
"""Maximum number of key groups reported, the most frequent first."""


class KeyGroupSample:
    """The sample of one subtask.

    ``key_group_of`` has, for each channel, a function from a record to its key group, or None if
    the channel has no key.
    """

    def __init__(self, key_group_of: Sequence[KeyGroupOf | None]) -> None:
        self._key_group_of = list(key_group_of)
        self._counts: Counter[int] = Counter()
        self._taken = 0
        self._counted = 0
        self._large = 0

    def weigh(self, channel: int, records: int) -> int:
        """Return the weight for a batch of ``records`` records, at least one.

        If the weight is not 0, the caller must pass the batch to ``take``.
        """
        if self._key_group_of[channel] is None:
            return 0
        if records < LARGE_BATCH_RECORDS:
            return 1
        # Vary the position among the large batches, because channels may take turns.
        turn, place = divmod(self._large, LARGE_BATCHES_EACH)
        self._large += 1
        return LARGE_BATCHES_EACH if place == turn % LARGE_BATCHES_EACH else 0

    def take(self, channel: int, records: Sequence[Any], weight: int = 1) -> None:
        """Sample a batch with the given weight."""
        key_group_of = self._key_group_of[channel]
        assert key_group_of is not None, "a batch of such a channel is not sampled"
        self._taken += 1
        try:
            self._counts[key_group_of(records[self._taken % len(records)])] += weight
        except Exception:
            # The record was keyed where it was sent, so the error does not concern the job. The
            # record may have another form here, before its type is restored. Stop sampling.
            self._key_group_of[channel] = None
            return
        self._counted += weight
        if self._counted >= SAMPLE_MAX:
            halved = {group: count // 2 for group, count in self._counts.items()}
            self._counts = Counter({group: count for group, count in halved.items() if count})
            self._counted = self._counts.total()  # Halves are rounded down, so add them up.

    def counts(self) -> tuple[KeyGroupCount, ...]:
        """Return the most frequent key groups with their counts, in descending order.

        A last entry with key group -1 counts all others together.
        """
        # The event loop reads while the subtask's thread samples. A single call in C makes an
        # atomic copy.
        counts = dict.copy(self._counts)
        most = nlargest(KEY_GROUPS_TOLD_MAX, counts.items(), key=itemgetter(1))
        others = sum(counts.values()) - sum(count for _, count in most)
        told = [KeyGroupCount(group, count) for group, count in most]
        return (*told, KeyGroupCount(-1, others)) if others else tuple(told)

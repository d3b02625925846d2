"""Which key groups the records of a subtask belong to: a sample, for who asks why it is busy.

Theory of operation. Of a batch one record is looked at, at another place in each: that costs a
hash, and who has most of the records has most of the sample. Where batches are large that is done
with one in ``LARGE_BATCHES_EACH``, which stands for all of them: all of its records have to be
unpacked at once for it, which costs an operator a tenth of its time. The counts are of late:
whenever there are ``SAMPLE_MAX`` all are halved, so that what was long ago fades. Channels whose
edge is not keyed are passed over. What the key selector raises here is not the job's concern: the
record has been keyed where it was sent, but may have another form before its type is restored; the
channel is not sampled any more then.
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
"""Batches after which the older ones count half as much."""

LARGE_BATCH_RECORDS = 64
"""From so many on it is a large one. Fewer are unpacked as fast at once as one by one."""

LARGE_BATCHES_EACH = 8
"""Of so many one is looked at."""

KEY_GROUPS_TOLD_MAX = 8
"""Key groups that are told of, those with most records first."""


class KeyGroupSample:
    """The sample of one subtask; ``key_group_of`` says, for each channel, the key group of a
    record, or None for a channel that is not keyed."""

    def __init__(self, key_group_of: Sequence[KeyGroupOf | None]) -> None:
        self._key_group_of = list(key_group_of)
        self._counts: Counter[int] = Counter()
        self._taken = 0
        self._counted = 0
        self._large = 0

    def weigh(self, channel: int, records: int) -> int:
        """A batch of so many records has come, at least one: return for how many it stands. If not
        for 0, ``take`` is to look at it."""
        if self._key_group_of[channel] is None:
            return 0
        if records < LARGE_BATCH_RECORDS:
            return 1
        # Not each time the same of so many: channels may take turns.
        turn, place = divmod(self._large, LARGE_BATCHES_EACH)
        self._large += 1
        return LARGE_BATCHES_EACH if place == turn % LARGE_BATCHES_EACH else 0

    def take(self, channel: int, records: Sequence[Any], weight: int = 1) -> None:
        """Look at a batch that stands for so many."""
        key_group_of = self._key_group_of[channel]
        assert key_group_of is not None, "a batch of such a channel stands for none"
        self._taken += 1
        try:
            self._counts[key_group_of(records[self._taken % len(records)])] += weight
        except Exception:
            self._key_group_of[channel] = None
            return
        self._counted += weight
        if self._counted >= SAMPLE_MAX:
            halved = {group: count // 2 for group, count in self._counts.items()}
            self._counts = Counter({group: count for group, count in halved.items() if count})
            self._counted = self._counts.total()

    def counts(self) -> tuple[KeyGroupCount, ...]:
        """The key groups with most records, the first of all, and how often each was seen; the
        last one, -1, is all others together."""
        # The loop asks while the subtask's thread takes: one call in C copies all of them at once.
        counts = dict.copy(self._counts)
        most = nlargest(KEY_GROUPS_TOLD_MAX, counts.items(), key=itemgetter(1))
        others = sum(counts.values()) - sum(count for _, count in most)
        told = [KeyGroupCount(group, count) for group, count in most]
        return (*told, KeyGroupCount(-1, others)) if others else tuple(told)

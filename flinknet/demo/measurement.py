"""What one keyed subtask measures: per record its arrival, its latency and its channel.

Theory of operation
-------------------
``taken`` is a flat array of three integers per record (arrival, intended send time, source), which
the operator appends to; that is all that happens per record. ``count`` turns full batches into
counters with numpy and clears the array, so memory is bounded by ``BATCH_RECORDS`` and by the
histograms. The counters leave as plain rows, which Spark merges and evaluates:

- a latency row counts the records of one channel that were at most ``upper_ns`` late and later than
  the bucket below; in a channel's last row ``upper_ns`` is exactly its largest latency;
- an arrival row counts the records that the subtask took between ``begin_ns`` and ``end_ns``: whole
  intervals on the monotonic clock, which all processes of a host share, except that the first
  begins with the first record and the last ends with the last one.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flinknet.demo.histogram import BUCKETS, bucket_index, bucket_upper

__all__ = ["BATCH_RECORDS", "INTERVAL_NS", "ArrivalRow", "LatencyRow", "Measurement"]

INTERVAL_NS: Final = 100_000_000
"""Resolution of throughput over time."""

BATCH_RECORDS: Final = 16_384
"""Records between two numpy passes: 400 KB, and about 1 ms of counting."""

FIELDS: Final = 3

Integers = NDArray[np.int64]


class LatencyRow(NamedTuple):
    """Records of the channel ``source`` -> ``subtask`` in one latency bucket."""

    subtask: int
    source: int
    upper_ns: int
    records: int


class ArrivalRow(NamedTuple):
    """Records that ``subtask`` took between two instants of the monotonic clock."""

    subtask: int
    begin_ns: int
    end_ns: int
    records: int


class Measurement:
    """The counters of one keyed subtask. Not thread-safe."""

    def __init__(self, subtask: int, sources: int) -> None:
        self.taken: array[int] = array("q")
        self._subtask = subtask
        self._latency = np.zeros((sources, BUCKETS), np.int64)
        self._latency_max = np.zeros(sources, np.int64)
        self._arrivals: Counter[int] = Counter()
        self._first_ns: int | None = None
        self._last_ns = 0

    def count(self) -> None:
        """Count what is in ``taken`` and clear it."""
        if not self.taken:
            return
        batch = np.array(self.taken, np.int64).reshape(-1, FIELDS)
        del self.taken[:]
        self._add(*batch.T)

    def add(self, arrival_ns: int, intended_ns: Integers, sources: Integers) -> None:
        """Count records that have arrived together; of each, when it was to be sent, and where."""
        self._add(np.full(len(intended_ns), arrival_ns), intended_ns, sources)

    def _add(self, arrival: Integers, intended: Integers, source: Integers) -> None:
        latency = np.maximum(arrival - intended, 0)
        channel_bucket = source * BUCKETS + bucket_index(latency)
        counted = np.bincount(channel_bucket, minlength=self._latency.size)
        self._latency += counted.reshape(self._latency.shape)
        np.maximum.at(self._latency_max, source, latency)
        intervals, records = np.unique(arrival // INTERVAL_NS, return_counts=True)
        self._arrivals.update(dict(zip(intervals.tolist(), records.tolist(), strict=True)))
        if self._first_ns is None:
            self._first_ns = int(arrival[0])
        self._last_ns = int(arrival[-1])

    def latency_rows(self) -> Iterator[LatencyRow]:
        """Yield the occupied buckets of every channel."""
        self.count()
        for source, histogram in enumerate(self._latency):
            occupied = np.flatnonzero(histogram)
            uppers = np.minimum(bucket_upper(occupied), self._latency_max[source])
            if occupied.size:
                uppers[-1] = self._latency_max[source]  # also where the last bucket is open-ended
            counts = histogram[occupied]
            for upper, records in zip(uppers.tolist(), counts.tolist(), strict=True):
                yield LatencyRow(self._subtask, source, upper, records)

    def arrival_rows(self) -> Iterator[ArrivalRow]:
        """Yield the intervals in which records came, in order of time."""
        self.count()
        for interval in sorted(self._arrivals):
            begin = max(interval * INTERVAL_NS, self._first_ns or 0)
            end = min((interval + 1) * INTERVAL_NS, self._last_ns)
            yield ArrivalRow(self._subtask, begin, end, self._arrivals[interval])

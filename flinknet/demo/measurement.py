"""Measurements of one keyed subtask: arrival, latency and channel of each record.

``add`` stores records that arrived together: the time, the source, and their intended send times.
From ``BATCH_RECORDS`` on, numpy converts these to counters. Memory is therefore bounded by this
number and by the histograms, and small batches do not cost a pass each. The counters are emitted as
plain rows, which Spark merges and evaluates:

- A latency row counts the records of one channel that were at most ``upper_ns`` late, but later
  than the bucket below. In a channel's last row, ``upper_ns`` is exactly its largest latency.
- An arrival row counts the records that the subtask took between ``begin_ns`` and ``end_ns``. These
  are whole intervals on the monotonic clock, which all processes of a host share. The first
  interval begins with the first record, and the last one ends with the last record.

The latency histogram has the layout of HdrHistogram. Values below ``2 ** (SUB_BUCKET_BITS + 1)``
have a bucket each, and every further power of two is split into ``2 ** SUB_BUCKET_BITS`` equal
buckets. A bucket is thus never wider than 0.4 % of its values, from nanoseconds to hours, in a few
thousand counters. That library's ``record_value`` takes 0.6 us, as much as the rest of the
operator. numpy counts a batch at 10 ns per value, and Spark can merge plain buckets as rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BATCH_RECORDS",
    "BUCKETS",
    "INTERVAL_NS",
    "SUB_BUCKET_BITS",
    "ArrivalRow",
    "LatencyRow",
    "Measurement",
    "bucket_index",
    "bucket_upper",
]

INTERVAL_NS: Final = 100_000_000
"""Resolution of throughput over time."""

BATCH_RECORDS: Final = 16_384
"""Records between two numpy passes: 600 KB of Python integers, and about 1 ms of counting."""

Integers = NDArray[np.int64]


SUB_BUCKET_BITS: Final = 8

VALUE_BITS_MAX: Final = 44
"""The last bucket ends at 2^44 ns, almost five hours; longer latencies count there, too."""

BUCKETS: Final = (VALUE_BITS_MAX - SUB_BUCKET_BITS + 1) << SUB_BUCKET_BITS

_VALUE_MAX: Final = (1 << VALUE_BITS_MAX) - 1


def bucket_index(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bucket of each value; negative values count as 0."""
    clipped = np.clip(values, 0, _VALUE_MAX)
    # frexp's exponent is the bit length; it is exact, because clipped values fit a float's
    # mantissa.
    bit_length = np.frexp(clipped.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(bit_length - SUB_BUCKET_BITS - 1, 0)
    return (shift << SUB_BUCKET_BITS) + (clipped >> shift)


def bucket_upper(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the largest value that each bucket counts."""
    shift = np.maximum((index >> SUB_BUCKET_BITS) - 1, 0)
    mantissa = index - (shift << SUB_BUCKET_BITS)
    upper: NDArray[np.int64] = ((mantissa + 1) << shift) - 1
    return upper


class LatencyRow(NamedTuple):
    """Records of the channel from ``source`` to ``subtask`` in one latency bucket."""

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
        self._subtask = subtask
        self._taken: list[tuple[int, int, Sequence[int] | Integers]] = []
        self._taken_records = 0
        self._latency = np.zeros((sources, BUCKETS), np.int64)
        self._latency_max = np.zeros(sources, np.int64)
        self._arrivals: Counter[int] = Counter()
        self._first_ns: int | None = None
        self._last_ns = 0

    def add(self, arrival_ns: int, source: int, intended_ns: Sequence[int] | Integers) -> None:
        """Record a batch that arrived from one source, with the intended send time of each record.

        Arrival times must not decrease.
        """
        self._taken.append((arrival_ns, source, intended_ns))
        self._taken_records += len(intended_ns)
        if self._taken_records >= BATCH_RECORDS:
            self._count()

    def _count(self) -> None:
        """Convert the stored batches to counters."""
        if self._taken_records:
            arrivals, sources, intended = zip(*self._taken, strict=True)
            lengths = [len(some) for some in intended]
            self._add(
                np.repeat(np.array(arrivals, np.int64), lengths),
                np.concatenate([np.asarray(some, np.int64) for some in intended]),
                np.repeat(np.array(sources, np.int64), lengths),
            )
        self._taken, self._taken_records = [], 0

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
        self._count()
        for source, histogram in enumerate(self._latency):
            occupied = np.flatnonzero(histogram)
            uppers = np.minimum(bucket_upper(occupied), self._latency_max[source])
            if occupied.size:
                uppers[-1] = self._latency_max[source]  # even if the last bucket is open-ended
            counts = histogram[occupied]
            for upper, records in zip(uppers.tolist(), counts.tolist(), strict=True):
                yield LatencyRow(self._subtask, source, upper, records)

    def arrival_rows(self) -> Iterator[ArrivalRow]:
        """Yield the intervals with arrivals, in order of time."""
        self._count()
        for interval in sorted(self._arrivals):
            begin = max(interval * INTERVAL_NS, self._first_ns or 0)
            end = min((interval + 1) * INTERVAL_NS, self._last_ns)
            yield ArrivalRow(self._subtask, begin, end, self._arrivals[interval])

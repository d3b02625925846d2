"""Sources for collections and generated records, and an open-loop schedule for any source.

A rate-limited source has an open-loop schedule. Over all subtasks together, record i is *intended*
at ``start + i / rate``; subtask k of p sends records k, k + p, k + 2p and so on. The schedule never
slows down. After a delay, by backpressure or a busy worker, the source sends everything that has
become due at once, each record with its intended time. Latencies measured from intended times thus
include waiting that a closed loop would hide (no coordinated omission).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from itertools import islice
from operator import add
from typing import Any, overload

from flinknet import machine
from flinknet.compatibility.subscripted import A, Subscripted, T
from flinknet.errors import ConfigurationError
from flinknet.functions.calls import BATCH_RECORDS
from flinknet.functions.context import RuntimeContext
from flinknet.operators.source import Batch, Source, read
from flinknet.records.detached import each_detached

__all__ = [
    "CollectionSource",
    "GeneratorSource",
    "NumberSequenceSource",
    "RateLimitedSource",
    "append_time",
]

NANOSECONDS = 1_000_000_000

STEP_NS = 1_000_000
"""Minimum time between two batches of a source that is not precise, unless a batch is full."""

TIMER_RESOLUTION_NS = 2_000_000
"""Maximum delay of an event loop's timer.

A precise source does not sleep for the last part of a wait; it keeps yielding to the loop instead.
"""


class CollectionSource(Source[T]):
    """A collection that travels with the job, distributed round robin; one subtask by default."""

    parallelism = 1
    replayable = True
    deals_out_records = True

    def __init__(self, collection: Iterable[T]) -> None:
        self._collection = list(collection)

    def batches(self, context: RuntimeContext) -> Iterator[list[T]]:
        return self.batches_after(context, 0)

    def batches_after(self, context: RuntimeContext, position: int) -> Iterator[list[T]]:
        share = self._collection[context.index :: context.parallelism]
        for start in range(position, len(share), BATCH_RECORDS):
            yield share[start : start + BATCH_RECORDS]


class GeneratorSource(Source[T]):
    """Generates records with a function of their number: ``function(0)``, ``function(1)``, ...

    ``count`` is the number of records over all subtasks; None means unlimited. Numbers are
    distributed round robin. The function is called when its record is due, so it may read the
    clock. After a failure it is called again for the numbers since the last checkpoint.
    """

    replayable = True
    deals_out_records = True

    def __init__(self, function: Callable[[int], T], count: int | None = None) -> None:
        if not callable(function):
            raise ConfigurationError(f"the generator is a {type(function).__name__}, not callable")
        if count is not None and count < 0:
            raise ConfigurationError(f"count is {count}: choose 0 or more records, or None")
        self._function = function
        self._count = count
        self.is_bounded = count is not None

    def batches(self, context: RuntimeContext) -> Iterator[Batch[T]]:
        return self.batches_after(context, 0)

    def batches_after(self, context: RuntimeContext, position: int) -> Iterator[Batch[T]]:
        step = context.parallelism
        end = sys.maxsize if self._count is None else self._count
        for start in range(context.index + position * step, end, step * BATCH_RECORDS):
            numbers = range(start, min(end, start + step * BATCH_RECORDS), step)
            yield _GeneratedBatch(self._function, numbers)


class NumberSequenceSource(GeneratorSource[int]):
    """The integers from ``start`` to ``end``, both included (PyFlink's)."""

    def __init__(self, start: int, end: int) -> None:
        if start > end:
            raise ConfigurationError(f"a sequence of numbers ends at {end}, before it begins")
        super().__init__(partial(add, start), end - start + 1)


class _GeneratedBatch(Subscripted[T]):
    """A batch that makes its records on iteration."""

    def __init__(self, function: Callable[[int], T], numbers: range) -> None:
        self._function = function
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[T]:
        function = self._function
        return (function(number) for number in self._numbers)


class RateLimitedSource(Source[T]):
    """Another source, on an open-loop schedule of ``records_per_s`` over all subtasks.

    Each subtask has an equal part of the rate, regardless of its number of records. An Arrow record
    batch counts as one record. ``stamp(record, intended_ns)`` returns the record to send instead of
    the source's; ``append_time`` is a stamp function for tuples. ``intended_ns`` is the intended
    time in nanoseconds on the machine's monotonic clock, so processes on one machine can compare
    times.

    The schedule starts when the first records have been read. Records are released in steps of
    about a millisecond. Batches of one record would cost more than the records themselves, and
    timers of event loops are no finer. A ``precise`` source releases each record when it is due,
    and keeps the processor busy while it waits.
    """

    keeps_no_records = True

    @overload
    def __init__(
        self,
        source: Source[T],
        records_per_s: float,
        *,
        stamp: None = None,
        precise: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self,
        source: Source[A],
        records_per_s: float,
        *,
        stamp: Callable[[A, int], T],
        precise: bool = False,
    ) -> None: ...

    def __init__(
        self,
        source: Source[Any],
        records_per_s: float,
        *,
        stamp: Callable[[Any, int], Any] | None = None,
        precise: bool = False,
    ) -> None:
        if not 0 < records_per_s < float("inf"):
            raise ConfigurationError(f"records_per_s is {records_per_s}: choose a positive rate")
        self.parallelism = source.parallelism
        self.replayable = source.replayable
        self.deals_out_records = source.deals_out_records
        self.is_bounded = source.is_bounded
        self._source = source
        self._records_per_s = records_per_s
        self._stamp = stamp
        self._precise = precise

    def batches(self, context: RuntimeContext) -> AsyncIterator[list[T]]:
        return self._released(read(self._source, context), context)

    def batches_after(self, context: RuntimeContext, position: int) -> AsyncIterator[list[T]]:
        """Start the schedule anew with the first record after ``position``."""
        return self._released(read(self._source, context, position), context)

    async def _released(
        self, batches: AsyncGenerator[Batch, None], context: RuntimeContext
    ) -> AsyncIterator[list[T]]:
        interval_ns = NANOSECONDS / self._records_per_s
        # Subtask k of p sends the records k, k + p, k + 2p and so on of the schedule.
        offset_ns = round(context.index * interval_ns)
        interval_ns *= context.parallelism
        start_ns: int | None = None
        released_ns = sent = 0
        async with aclosing(batches):
            async for batch in batches:
                if start_ns is None:
                    start_ns = machine.monotonic_ns() + offset_ns
                records, end = iter(batch), sent + len(batch)
                while sent < end:
                    not_before_ns = 0 if self._precise else released_ns + STEP_NS
                    with context.idle():
                        due = await self._wait_until_due(start_ns, interval_ns, sent, not_before_ns)
                    released_ns = machine.monotonic_ns()
                    released = list(each_detached(islice(records, min(due, BATCH_RECORDS))))
                    if self._stamp is not None:
                        stamp, numbers = self._stamp, range(sent, sent + len(released))
                        stamped = (
                            stamp(record, start_ns + round(number * interval_ns))
                            for record, number in zip(released, numbers, strict=True)
                        )
                        released = list(each_detached(stamped))
                    sent += len(released)
                    yield released

    async def _wait_until_due(
        self, start_ns: int, interval_ns: float, sent: int, not_before_ns: int
    ) -> int:
        """Wait until records are due, and return their number, at least 1.

        Before ``not_before_ns``, return only for a full batch.
        """
        while True:
            now_ns = machine.monotonic_ns()
            due = int((now_ns - start_ns) // interval_ns) + 1 - sent
            if due >= (1 if now_ns >= not_before_ns else BATCH_RECORDS):
                return due
            wait_ns = max(start_ns + sent * interval_ns, not_before_ns) - now_ns
            if self._precise:
                # A sleep of 0 only yields to the event loop.
                wait_ns = max(0.0, wait_ns - TIMER_RESOLUTION_NS)
            await asyncio.sleep(wait_ns / NANOSECONDS)


def append_time(record: tuple[Any, ...], intended_ns: int) -> tuple[Any, ...]:
    """Append the intended time to a tuple, in nanoseconds."""
    return (*record, intended_ns)

"""Record appender: the path for records that do not fit the open builder of an output.

Theory of operation. A route writes a record itself if it fits the open builder, and calls the
appender otherwise. The appender therefore does all the work that is needed once per buffer: it
checks a long record against the limits, waits for memory, notices released consumers, requests a
flush, and yields to the event loop.

A record begins only while the partition's pool is available (soft backpressure). In the middle of a
record, any buffer will do (hard backpressure). A task that waits holds the slow path alone, so
neither a record of another task nor an event comes between the pieces of a record. ``torn`` is set
while a record is begun and not complete. Outside the slow path, ``torn`` means that a cancellation
has cut the record off.

Counting: the appender counts the records that it has written (``records_out``), each route counts
its own, and each builder counts its own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from flinknet.buffer.availability import Availability, Wait, WaitReason
from flinknet.buffer.builder import BufferBuilder
from flinknet.errors import LocalProtocolError
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.cooperative_budget import CooperativeBudget, yield_to_loop
from flinknet.records.output import BroadcastOutput, Output
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.written import WRITTEN

__all__ = ["RecordAppender", "emit_lets_loop_turn"]

_UNCUT_SHARE = 16


class RecordAppender:
    """Appender of records to the outputs of one partition, for one writer.

    Attributes: ``torn`` is true while a record is begun and not complete. ``ended`` is true when no
    more records may come. ``builders_opened`` counts the builders taken from the pool.
    ``builders_resumed`` counts how often a builder was resumed after a reader had taken from it.
    ``unflushed`` holds the outputs that received data since the set was last emptied.

    Args:
        partition: The partition of the outputs.
        broadcast: The output that all subpartitions share.
        wait: Suspends until an Availability is available.
        limits: The limits that records are checked against.
        on_unflushed: Called when an output becomes unflushed while no other output is.
    """

    __slots__ = (
        "_availability",
        "_broadcast",
        "_budget",
        "_limits",
        "_on_unflushed",
        "_partition",
        "_slow_path",
        "_wait",
        "_whole_bytes_max",
        "builders_opened",
        "builders_resumed",
        "ended",
        "records_out",
        "torn",
        "unflushed",
    )

    def __init__(
        self,
        partition: ResultPartition,
        broadcast: BroadcastOutput,
        wait: Wait,
        limits: RecordLimits,
        on_unflushed: Callable[[], None],
    ) -> None:
        self._partition = partition
        self._availability = partition.availability
        self._broadcast = broadcast
        self._wait = wait
        self._limits = limits
        # Records up to this size need no check and fit one buffer.
        self._whole_bytes_max = min(limits.unchecked_bytes, partition.segment_bytes)
        self._on_unflushed = on_unflushed
        self._slow_path = _SlowPath(wait)
        self._budget = CooperativeBudget()
        self.builders_opened = 0
        self.builders_resumed = 0
        self.records_out = 0
        self.ended = False
        self.torn = False
        self.unflushed: set[Output] = set()

    def append(
        self, output: Output, data: bytes | memoryview, head: bytes = b""
    ) -> Coroutine[Any, Any, None]:
        """Write a record that does not fit the open builder of an output.

        ``head`` holds the first bytes of the record if ``data`` holds only its content.

        Cancellation: a cancelled wait leaves the record unwritten, or torn if the record is longer
        than a buffer.

        Raises SerializationError for a record over a limit, ConsumerCancelledError or the cause of
        the loss of the consumers, and LocalProtocolError after the end.
        """
        filled, opened = output.builder, self.builders_opened
        if not self._append_at_once(output, data, head):
            return self._append(output, data, head)
        if self._is_over_budget(filled, opened):
            return emit_lets_loop_turn()
        return WRITTEN

    def _append_at_once(self, output: Output, data: bytes | memoryview, head: bytes) -> bool:
        """Write a record that is not cut, if nothing prevents it; return whether it is written.

        A record that has to wait is not written.
        """
        builder, size = output.builder, len(head) + len(data)
        if (
            size > self._whole_bytes_max
            or _is_cut(builder, size)
            or self._slow_path.busy
            or self.ended
            or self.torn
            or output.target.released  # ``_append`` yields to the loop
            or not self._partition.writable
        ):
            return False
        # Records shared by all subpartitions come before the records of one of them.
        if output is not self._broadcast:
            self.seal_broadcast()
        # Resuming a builder needs nothing of the pool, so it does not wait for the pool.
        if builder.paused:
            self._resume(builder)
        if not builder.append_whole(data, head):
            if not self._availability.available:
                return False
            output.seal()
            opened = output.open()
            assert opened, "a pool was available without a buffer"
            self.builders_opened += 1
            # A debloated buffer is smaller than its segment. A record that is larger than the
            # buffer and fits the segment need not be cut.
            output.builder.expand(size)
            output.builder.append_whole(data, head)
        self._count(output)
        return True

    async def _append(self, output: Output, data: bytes | memoryview, head: bytes) -> None:
        """Write a record that is cut, or that has to wait."""
        if len(head) + len(data) > self._limits.unchecked_bytes:
            self._limits.check(data, head)
        while self._slow_path.busy:
            await self._slow_path.until_free()
        if self.ended or self.torn:
            self.check_open()
        if output is not self._broadcast:
            self.seal_broadcast()
        filled, opened = output.builder, self.builders_opened
        if filled.paused:
            self._resume(filled)
        if not filled.append_whole(data, head):
            rest = memoryview(data)
            if self._partition.writable and self._availability.available:
                rest = self._begin(output, rest, head)
            else:
                rest = await self._begin_when_available(output, rest, head)
            if rest:
                await self._write_rest(output, rest, head)
            self.torn = False
        self._count(output)
        # Records for a released consumer open no builders, so they never spend the budget.
        if self._is_over_budget(filled, opened) or output.target.released:
            await yield_to_loop()

    def _count(self, output: Output) -> None:
        """Count a written record, and mark its output as unflushed."""
        self.records_out += 1
        is_first = not self.unflushed
        self.unflushed.add(output)
        if is_first:
            self._on_unflushed()

    def _is_over_budget(self, filled: BufferBuilder, opened: int) -> bool:
        """Return whether the writer should yield to the loop.

        ``opened`` is the value of ``builders_opened`` before the record.
        """
        count = self.builders_opened - opened
        return count > 0 and self._budget.spend(count, filled.records)

    def seal_broadcast(self) -> None:
        """Seal the shared builder, so that shared records precede records for one subpartition."""
        if not self._broadcast.builder.sealed:
            self._broadcast.seal()

    async def until_between_records(self) -> None:
        """Wait until no record is in progress.

        The caller must then write its event without another wait, or a record may begin before the
        event. Raises the errors of ``append``, except after the end of the records: events may
        follow the end.
        """
        while self._slow_path.busy:
            await self._slow_path.until_free()
        self._partition.check_writable()
        self._check_not_torn()

    def check_open(self) -> None:
        """Raise LocalProtocolError if no record can follow."""
        if self.ended:
            raise LocalProtocolError(
                f"a record was emitted to partition {self._partition.partition_id} after its end: "
                f"after finish, fail or close"
            )
        self._check_not_torn()

    def _check_not_torn(self) -> None:
        if self.torn:
            raise LocalProtocolError(
                f"the last record of partition {self._partition.partition_id} was cut off by a "
                "cancellation: no record can follow it"
            )

    def _resume(self, builder: BufferBuilder) -> None:
        """Resume a builder after the bytes that a reader has taken."""
        if not self._partition.writable:
            self._partition.check_writable()
        builder.resume()
        self.builders_resumed += 1

    async def _begin_when_available(
        self, output: Output, data: memoryview, head: bytes
    ) -> memoryview:
        """Wait until the pool is available and a buffer is certain, then begin the record.

        Return the rest. A record that fits one buffer is then written without another wait, whole
        or not at all.
        """
        with self._slow_path:
            self._partition.check_writable()
            while not self._availability.available:
                await self._wait(self._availability, WaitReason.SOFT_BACKPRESSURE)
                self._partition.check_writable()
            return self._begin(output, data, head)

    async def _write_rest(self, output: Output, rest: memoryview, head: bytes) -> None:
        """Write the rest of a record that has run out of buffers."""
        with self._slow_path:
            while rest:
                await self._wait(self._availability, WaitReason.HARD_BACKPRESSURE)
                rest = self._write_on(output, rest, head)

    def _begin(self, output: Output, data: memoryview, head: bytes) -> memoryview:
        """Begin a record that does not fit, and write as much as there are buffers for.

        Return the rest.
        """
        rest = data
        if output.builder.remaining:
            rest = self._fill_up(output.builder, data, head)
        output.seal()
        return self._write_on(output, rest, head)

    def _write_on(self, output: Output, rest: memoryview, head: bytes) -> memoryview:
        """Write to new builders until the record ends or no buffer is left; return the rest."""
        partition = self._partition
        while rest:
            if not partition.writable:
                partition.check_writable()
            if output.target.released:  # the rest is dropped
                return rest[:0]
            if not output.open():
                return rest
            # The head is written with the first bytes of the content.
            rest = self._fill(output.builder, rest, b"" if self.torn else head)
            if rest:
                output.seal()
        return rest

    def _fill_up(self, builder: BufferBuilder, data: memoryview, head: bytes) -> memoryview:
        """Fill the open builder, if the record may be cut; return the rest."""
        size = len(head) + len(data)
        if builder.remaining < size and not _is_cut(builder, size):
            return data
        rest = data[builder.append(data, head=head) :]
        self.torn = 0 < len(rest) < len(data)
        return rest

    def _fill(self, builder: BufferBuilder, rest: memoryview, head: bytes) -> memoryview:
        """Write to a new builder; return the rest that did not fit."""
        self.builders_opened += 1
        if not self.torn and builder.append_whole(rest, head):
            return rest[:0]
        builder.expand(len(head) + len(rest))
        rest = rest[builder.append(rest, head=head, continues=self.torn) :]
        self.torn = bool(rest)
        return rest


def _is_cut(builder: BufferBuilder, size: int) -> bool:
    """Return whether a record that does not fit an open builder begins in it.

    A record is cut only if both the record and the remaining space exceed 1/16 of a buffer.
    Otherwise the record starts the next buffer. Most buffers then end with a record, and the
    consumer can deserialise them at once.
    """
    return min(builder.remaining, size) > builder.capacity // _UNCUT_SHARE


async def emit_lets_loop_turn() -> None:
    """Yield to the loop, for a record that is written and has spent the budget."""
    await yield_to_loop()


class _SlowPath:
    """Lock of the code that may wait in the middle of a record; one task at a time holds it.

    Usage: ``while slow_path.busy: await slow_path.until_free()``, then ``with slow_path:``. Nothing
    is awaited between the two, so no other task can enter between them.
    """

    __slots__ = ("_free", "_wait", "busy")

    def __init__(self, wait: Wait) -> None:
        self.busy = False
        self._free = Availability()
        self._wait = wait

    async def until_free(self) -> None:
        """Wait until the task in the slow path has left."""
        self._free.set(False)
        await self._wait(self._free, WaitReason.SOFT_BACKPRESSURE)

    def __enter__(self) -> None:
        assert not self.busy, "two tasks are in the slow path of a writer"
        self.busy = True

    def __exit__(self, *exception: object) -> None:
        self.busy = False
        if self._free.waiting:
            self._free.set(True)

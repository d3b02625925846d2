"""Appending records that do not fit the open builder of an output, over as many as they take.

Theory of operation. What a route cannot write itself comes here, so here is everything that happens
per buffer: checking a long record's limits, waiting for memory, noticing that the consumers are
gone, asking for a flush, and yielding to the event loop.

A record is begun only while the partition's pool is available (soft); in the middle of one any
buffer will do (hard). Whoever waits is alone in the slow path, so that nothing comes between the
pieces of a record: no record of another task, and no event. ``torn`` is set while a record is begun
and not complete: outside the slow path that means that a cancellation has cut it off.

A builder that a reader has taken from goes on, if the record fits what is left of it, whether the
pool is available or not: it needs nothing of the pool.

A record is cut only if both it and what is left of the buffer are more than 1/16 of a buffer: it
starts the next buffer otherwise, so that most buffers end with a record and the consumer can take
them apart at once. One that is not cut, and for which there is a buffer, is written by the call of
``append`` itself, as most are by that of ``emit``.

The appender counts the records that it has written (``records_out``), the routes count those that
they have; a builder counts its own.
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
    """Appends to the outputs of one partition, for one writer.

    ``torn`` says whether a record is begun and not complete, ``ended`` that no other may come,
    ``builders_opened`` counts those of the pool, ``builders_resumed`` how often one went on behind
    what a reader had taken; ``unflushed`` holds the outputs in which something new stands since it
    was emptied.

    Args:
        partition: where the outputs are.
        broadcast: the output that all subpartitions share.
        wait: suspends until an Availability is available.
        limits: what records are held against.
        on_unflushed: called when something stands in an output, and in none did before.
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

        ``head`` are its first bytes, if ``data`` is only its content. Raises SerializationError
        for one over a limit, ConsumerCancelledError or the cause with which the consumers were
        lost, LocalProtocolError after the end. If the waiting is cancelled, nothing is written, or
        the record is torn, which takes one longer than a buffer.
        """
        filled, opened = output.builder, self.builders_opened
        if not self._append_at_once(output, data, head):
            return self._append(output, data, head)
        if self._is_over_budget(filled, opened):
            return emit_lets_loop_turn()
        return WRITTEN

    def _append_at_once(self, output: Output, data: bytes | memoryview, head: bytes) -> bool:
        """Write a record that is not cut, unless something speaks against it, or has to be waited
        for; whether it is written."""
        builder, size = output.builder, len(head) + len(data)
        if (
            size > self._whole_bytes_max
            or _is_cut(builder, size)
            or self._slow_path.busy
            or self.ended
            or self.torn
            or output.target.released
            or not self._partition.writable
        ):
            return False
        if output is not self._broadcast:
            self.seal_broadcast()
        if builder.paused:
            self._resume(builder)
        if not builder.append_whole(data, head):
            if not self._availability.available:
                return False
            output.seal()
            opened = output.open()
            assert opened, "a pool was available and had no buffer"
            self.builders_opened += 1
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
        if self._is_over_budget(filled, opened) or output.target.released:
            await yield_to_loop()

    def _count(self, output: Output) -> None:
        """A record is written, and may have to be flushed."""
        self.records_out += 1
        is_first = not self.unflushed
        self.unflushed.add(output)
        if is_first:
            self._on_unflushed()

    def _is_over_budget(self, filled: BufferBuilder, opened: int) -> bool:
        """Whether the loop is to turn, after a record before which so many had been opened."""
        count = self.builders_opened - opened
        return count > 0 and self._budget.spend(count, filled.records)

    def seal_broadcast(self) -> None:
        """Let what all subpartitions share stand before what one of them gets."""
        if not self._broadcast.builder.sealed:
            self._broadcast.seal()

    async def until_between_records(self) -> None:
        """Wait until no record is in progress; what is to stand between two of them must be written
        then without another wait.

        Raises what ``append`` raises, but for the end of the records, behind which events may
        come."""
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
                f"cancellation: nothing can follow it"
            )

    def _resume(self, builder: BufferBuilder) -> None:
        """Go on behind what a reader has taken, as in a new builder."""
        if not self._partition.writable:
            self._partition.check_writable()
        builder.resume()
        self.builders_resumed += 1

    async def _begin_when_available(
        self, output: Output, data: memoryview, head: bytes
    ) -> memoryview:
        """Hold a record back until the pool is available and a buffer certain: a record no longer
        than that is then written without another wait, whole or not at all; return the rest."""
        with self._slow_path:
            self._partition.check_writable()
            while not self._availability.available:
                await self._wait(self._availability, WaitReason.SOFT_BACKPRESSURE)
                self._partition.check_writable()
            return self._begin(output, data, head)

    async def _write_rest(self, output: Output, rest: memoryview, head: bytes) -> None:
        """Go on with a record that has run out of buffers."""
        with self._slow_path:
            while rest:
                await self._wait(self._availability, WaitReason.HARD_BACKPRESSURE)
                rest = self._write_on(output, rest, head)

    def _begin(self, output: Output, data: memoryview, head: bytes) -> memoryview:
        """Begin a record that does not fit, and write as much of it as there are buffers for;
        return the rest."""
        rest = data
        if output.builder.remaining:
            rest = self._fill_up(output.builder, data, head)
        output.seal()
        return self._write_on(output, rest, head)

    def _write_on(self, output: Output, rest: memoryview, head: bytes) -> memoryview:
        """Write to new builders until nothing is left or no buffer is there; return the rest."""
        partition = self._partition
        while rest:
            if not partition.writable:
                partition.check_writable()
            if output.target.released:
                return rest[:0]
            if not output.open():
                return rest
            rest = self._fill(output.builder, rest, b"" if self.torn else head)
            if rest:
                output.seal()
        return rest

    def _fill_up(self, builder: BufferBuilder, data: memoryview, head: bytes) -> memoryview:
        """Use what is left of an open builder, for a record that may be cut; return the rest."""
        size = len(head) + len(data)
        if builder.remaining < size and not _is_cut(builder, size):
            return data
        rest = data[builder.append(data, head=head) :]
        self.torn = 0 < len(rest) < len(data)
        return rest

    def _fill(self, builder: BufferBuilder, rest: memoryview, head: bytes) -> memoryview:
        """Write to a new builder and return what did not fit."""
        self.builders_opened += 1
        if not self.torn and builder.append_whole(rest, head):
            return rest[:0]
        builder.expand(len(head) + len(rest))
        rest = rest[builder.append(rest, head=head, continues=self.torn) :]
        self.torn = bool(rest)
        return rest


def _is_cut(builder: BufferBuilder, size: int) -> bool:
    """Whether a record of so many bytes, which does not fit an open builder, begins in it."""
    return min(builder.remaining, size) > builder.capacity // _UNCUT_SHARE


async def emit_lets_loop_turn() -> None:
    """What there is to await for a record that is written, and with which the budget is spent."""
    await yield_to_loop()


class _SlowPath:
    """Lets one at a time through the part that may wait in the middle of a record.

    ``while slow_path.busy: await slow_path.until_free()``, then ``with slow_path:``; nothing can
    come between the two, because nothing is awaited there.
    """

    __slots__ = ("_free", "_wait", "busy")

    def __init__(self, wait: Wait) -> None:
        self.busy = False
        self._free = Availability()
        self._wait = wait

    async def until_free(self) -> None:
        """Wait until whoever is inside has left."""
        self._free.set(False)
        await self._wait(self._free, WaitReason.SOFT_BACKPRESSURE)

    def __enter__(self) -> None:
        assert not self.busy, "two tasks are in the slow path of a writer"
        self.busy = True

    def __exit__(self, *exception: object) -> None:
        self.busy = False
        if self._free.waiting:
            self._free.set(True)

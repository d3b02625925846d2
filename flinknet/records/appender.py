"""Appending records that do not fit the open builder of an output, over as many as they take.

Theory of operation. A record is begun only while the partition's pool is available (soft); in the
middle of one any buffer will do (hard). Whoever waits is alone in the slow path, so that nothing
comes between the pieces of a record. ``torn`` is set while a record is begun and not complete:
outside the slow path that means that a cancellation has cut it off.

A builder that a reader has taken from goes on, if the record fits what is left of it, whether the
pool is available or not: it needs nothing of the pool.

A record of at most 1/16 of a buffer is never cut: it starts the next buffer instead, so that most
buffers end with a record and the consumer can take them apart at once.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from flinknet.buffer.availability import Wait, WaitReason
from flinknet.buffer.builder import BufferBuilder
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.output import Output
from flinknet.records.slow_path import SlowPath

__all__ = ["RecordAppender"]

_UNCUT_SHARE = 16


class RecordAppender:
    """Appends to the outputs of one partition, for one writer.

    ``torn`` says whether a record is begun and not complete.
    """

    __slots__ = ("_availability", "_partition", "_wait", "buffers_opened", "slow_path", "torn")

    def __init__(self, partition: ResultPartition, wait: Wait) -> None:
        self._partition = partition
        self._availability = partition.availability
        self._wait = wait
        self.slow_path = SlowPath(wait)
        self.buffers_opened = 0
        self.torn = False

    def append(
        self, output: Output, data: bytes | memoryview, head: bytes
    ) -> Coroutine[Any, Any, None] | None:
        """Write a record, ``head`` and then ``data``; to be called while the slow path is free.

        What it returns is to be awaited at once: that waits for buffers, and writes what is left.
        Most records are written without, and None is returned: for one that is small, a coroutine
        would take as long as everything else here.

        Both raise ConsumerCancelledError or the cause with which the consumers were lost. If the
        waiting is cancelled, nothing is written, or the record is torn, which takes one longer than
        a buffer.
        """
        builder = output.builder
        size = len(head) + len(data)
        if builder.paused:
            self._resume(builder)
            if size <= builder.remaining:
                _put(builder, head, data, size)
                return None
        rest = memoryview(data)
        may_begin = self._partition.writable and self._availability.available
        if may_begin or size <= builder.remaining:
            rest = self._write(output, rest, head)
            if rest:
                return self._write_rest(output, rest, head)
            self.torn = False
            return None
        return self._begin_and_write(output, rest, head)

    def _resume(self, builder: BufferBuilder) -> None:
        """Go on behind what a reader has taken, as in a new builder."""
        if not self._partition.writable:
            self._partition.check_writable()
        builder.resume()
        self.buffers_opened += 1

    async def _begin_and_write(self, output: Output, data: memoryview, head: bytes) -> None:
        """Hold a record back until the pool is available and a buffer certain: a record no longer
        than that is then written without another wait, whole or not at all."""
        with self.slow_path:
            self._partition.check_writable()
            while not self._availability.available:
                await self._wait(self._availability, WaitReason.SOFT_BACKPRESSURE)
                self._partition.check_writable()
            rest = self._write(output, data, head)
        await self._write_rest(output, rest, head)

    async def _write_rest(self, output: Output, rest: memoryview, head: bytes) -> None:
        """Go on with a record that has run out of buffers."""
        with self.slow_path:
            while rest:
                await self._wait(self._availability, WaitReason.HARD_BACKPRESSURE)
                rest = self._write_on(output, rest, head)
        self.torn = False

    def _write(self, output: Output, data: memoryview, head: bytes) -> memoryview:
        """Begin a record and write as much of it as there are buffers for; return the rest."""
        rest = data
        if output.builder.remaining:
            rest = self._fill_up(output.builder, data, head)
        if rest:
            output.seal()
            return self._write_on(output, rest, head)
        return rest

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
        if builder.remaining < size <= builder.capacity // _UNCUT_SHARE:
            return data
        rest = data[builder.append(data, head=head) :]
        self.torn = 0 < len(rest) < len(data)
        return rest

    def _fill(self, builder: BufferBuilder, rest: memoryview, head: bytes) -> memoryview:
        """Write to a new builder and return what did not fit."""
        self.buffers_opened += 1
        size = len(head) + len(rest)
        if size <= builder.remaining and not self.torn:
            _put(builder, head, rest, size)
            return rest[:0]
        builder.expand(size)
        rest = rest[builder.append(rest, head=head, continues=self.torn) :]
        self.torn = bool(rest)
        return rest


def _put(builder: BufferBuilder, head: bytes, data: bytes | memoryview, size: int) -> None:
    """Write a record that fits."""
    if head:
        builder.write(head)
    builder.write(data)
    builder.remaining -= size
    builder.records += 1

"""A subtask's part in checkpoints: what it captures, writes and says.

Theory of operation
-------------------
A checkpoint has two halves. The first is *synchronous*, between two batches, and short: the barrier
goes to all writers, so that what was processed is in front of it everywhere, and the chain captures
its state. The second is *asynchronous*, a task beside the records: what was captured is written, a
slice at a time, and then acknowledged. ``BarrierHandler`` says when, in a subtask with inputs; a
source is triggered by a mail, and so is a subtask whose inputs have all finished.

What goes wrong in either half declines the checkpoint and harms nothing else. Whoever has aborted
it says so downstream, so that nobody waits for its barrier.

``taken`` is the newest checkpoint that was captured: a subtask that finishes is not to be taken for
finished in that one, nor in those before it. ``finish`` waits until all is written.

A subtask that has emitted its last record (``has_emitted_all``) reports so: whoever restores the
checkpoint does not have its operators end again. If it waits for its final checkpoint
(``await_checkpoint``) it captures its state as ever, for what is to be committed is there. If it
only waits until those downstream have processed everything (``end_input``), it captures nothing: it
sends the barrier on behind its last record and reports that it has finished. Once the ends of its
outputs are written it takes part by finishing alone.

Flink: SubtaskCheckpointCoordinatorImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from flinknet.buffer.buffer import Buffer
from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.checkpoint.barrier_events import CheckpointBarriers, handle_event
from flinknet.checkpoint.barrier_handler import BarrierHandler
from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.checkpoint.barrier_tracker import BarrierTracker
from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.metadata import CheckpointDirectory, Label, StateKind, StatePart
from flinknet.checkpoint.pending_checkpoint import SubtaskId, SubtaskReport
from flinknet.checkpoint.state_handle import encode_handle
from flinknet.config import CheckpointingConfig
from flinknet.environment.processing_time import (
    ProcessingTimeService,
    ScheduledTimer,
    wall_clock_ms,
)
from flinknet.environment.savepoint_stop import SavepointStop
from flinknet.environment.task_thread import ChainThread, OnLoop
from flinknet.errors import CheckpointStorageFullError
from flinknet.net.task_clock import task_time
from flinknet.operators.record_slices import RecordSlices
from flinknet.records.reader import EventHandler, RecordReader
from flinknet.records.writer import RecordWriter
from flinknet.runtime.chain import OperatorChain
from flinknet.runtime.channel_capture import ChannelCapture, InFlight
from flinknet.runtime.write_pace import WritePace
from flinknet.state.state_handler import OperatorSnapshot
from flinknet.texts import text_of
from flinknet.wire.events import (
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointKind,
    Event,
    decode_event,
)

__all__ = [
    "SECTION_BYTES",
    "CheckpointResponder",
    "PartWriter",
    "SubtaskCheckpoints",
    "labelled",
]

SECTION_BYTES = 4 << 20
"""Keyed state in a section: what is read of it at once."""

First = TypeVar("First")
Second = TypeVar("Second")

_IN_FLIGHT = frozenset((StateKind.INPUT, StateKind.OUTPUT))

_DECLINED_AS: dict[AbortReason, CheckpointFailureReason | None] = {
    AbortReason.CANCELLATION_BARRIER: None,
    AbortReason.COORDINATOR: None,
    AbortReason.DECLINED: CheckpointFailureReason.DECLINED,
    AbortReason.NOT_READY: CheckpointFailureReason.NOT_READY,
    AbortReason.SUBSUMED: CheckpointFailureReason.SUBSUMED,
}
"""What the coordinator is told of a checkpoint that is given up: nothing of one that it has given
up itself, nor of one that a subtask upstream has, which says so itself and knows why. Flink has
both declined, for reasons that never count (CheckpointFailureManager)."""


class PartWriter(Protocol):
    """Who writes state parts to where their checkpoint is."""

    config: CheckpointingConfig

    async def write_part(
        self, directory: CheckpointDirectory, name: str, blocks: Iterable[tuple[Label, bytes]]
    ) -> StatePart | None:
        """Write a part; see ``CheckpointStore.write_part``."""


class CheckpointResponder(Protocol):
    """Who tells the coordinator."""

    async def acknowledge(
        self, checkpoint_id: int, subtask: SubtaskId, report: SubtaskReport
    ) -> None:
        """The subtask has written its state."""

    async def decline(
        self,
        checkpoint_id: int,
        subtask: SubtaskId,
        reason: CheckpointFailureReason,
        explanation: str,
    ) -> None:
        """The subtask could not."""

    async def await_checkpoint(self, subtask: SubtaskId, taken: int) -> None:
        """The subtask has nothing left to do but to wait for a checkpoint behind ``taken``, and
        those that read it have read everything."""


class _Captured:
    """What the first half of a checkpoint has left for the second."""

    def __init__(
        self,
        barrier: CheckpointBarrier,
        snapshots: list[OperatorSnapshot],
        in_flight: InFlight | None,
        sync_ms: float,
        *,
        has_finished: bool,
    ) -> None:
        """``has_finished``: the subtask had emitted its last record; then there may be none of the
        ``snapshots``."""
        self.barrier = barrier
        self.has_finished = has_finished
        self.snapshots = snapshots
        self.in_flight = in_flight
        self.sync_ms = sync_ms

    def close(self) -> None:
        for snapshot in self.snapshots:
            snapshot.close()


class SubtaskCheckpoints:
    """The checkpoints of the subtask ``subtask`` in one attempt."""

    def __init__(
        self,
        subtask: SubtaskId,
        attempt: int,
        store: PartWriter,
        responder: CheckpointResponder,
    ) -> None:
        self.taken = -1
        self._subtask = subtask
        self._attempt = attempt
        self._store = store
        self._responder = responder
        self._chain: OperatorChain | None = None
        self._channels: ChannelCapture | None = None
        self.has_emitted_all = False
        """Whether the last record has been emitted."""
        self.input_has_ended = False
        """Whether, besides, nothing is left to be captured."""
        self._writers: Sequence[RecordWriter] = ()
        self._barriers: CheckpointBarriers | None = None
        self._timers: ProcessingTimeService | None = None
        self._timer: ScheduledTimer | None = None
        self._timer_ms: int | None = None
        """The barrier handler's deadline for which that is set."""
        self._others: EventHandler | None = None
        self._stop: SavepointStop | None = None
        self._stopping = -1
        """The savepoint with which the job ends that is to be taken, its barriers having come."""
        self._alignment: AlignmentMetrics | None = None
        self._thread: ChainThread = OnLoop()
        """Where the chain runs."""
        self._captured: dict[int, _Captured] = {}
        self._tasks: dict[asyncio.Task[None], int] = {}

    def begin(
        self,
        chain: OperatorChain,
        writers: Sequence[RecordWriter],
        reader: RecordReader | None,
        *,
        exactly_once: bool,
        timers: ProcessingTimeService,
        stop: SavepointStop,
        thread: ChainThread,
        others: EventHandler | None = None,
        slices: RecordSlices | None = None,
    ) -> None:
        """The chain is open, and records come next; ``reader`` is None for a source. ``others``
        handles the events that are not about checkpoints, ``slices`` interrupts batches."""
        vertex, index = self._subtask
        name = f"subtask {index} of vertex {vertex}"
        self._others = others
        self._chain = chain
        self._writers = writers
        self._timers = timers
        self._stop = stop
        self._thread = thread
        self._channels = ChannelCapture(name, self._store.config, reader, writers, slices)
        if reader is not None:
            kind = BarrierHandler if exactly_once else BarrierTracker
            self._barriers = kind(reader.gate, self, lambda: reader.bytes_in)

    # -- what comes, always between two batches

    def on_event(self, channel: int, event: Event) -> bool | None:
        """The reader delivers an event; True if the subtask has something to do before more is
        read."""
        if self._barriers is not None:
            decoded = decode_event(event)
            handled = handle_event(self._barriers, channel, decoded, wall_clock_ms())
            self._follow_deadline(self._barriers)
            if handled:
                return None
        return None if self._others is None else self._others.on_event(channel, event)

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> Coroutine[Any, Any, None] | None:
        """The coordinator has this subtask begin a checkpoint; nothing happens before ``begin``.
        What is returned is to be awaited before anything else."""
        if self._chain is None:
            return None
        if self.input_has_ended:
            self._take_as_finished(barrier)
        elif self._barriers is not None:
            self._barriers.on_trigger(barrier, wall_clock_ms())
            self._follow_deadline(self._barriers)
        elif barrier.checkpoint_id > self.taken:
            metrics = AlignmentMetrics(
                start_delay_ms=max(0, wall_clock_ms() - barrier.timestamp_ms)
            )
            if barrier.options.kind.stops:
                self._stopping, self._alignment = barrier.checkpoint_id, metrics
                return self._take_and_hold(self._chain, barrier)
            self.trigger(barrier)
            self.complete(barrier.checkpoint_id, metrics)
        return None

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """The coordinator has given a checkpoint up."""
        if self._barriers is not None and not self.input_has_ended:
            self._barriers.abort(checkpoint_id, AbortReason.COORDINATOR)
            self._follow_deadline(self._barriers)
        self._drop(checkpoint_id)

    def _follow_deadline(self, barriers: CheckpointBarriers) -> None:
        """Have ``on_time`` called as a mail when the barrier handler wants it."""
        assert self._timers is not None, "barriers come to a subtask that has begun"
        deadline_ms = barriers.deadline_ms
        if self._timer is not None and self._timer_ms != deadline_ms:
            self._timers.cancel(self._timer)
            self._timer = None
        if deadline_ms is not None and self._timer is None:
            self._timer_ms = deadline_ms
            self._timer = self._timers.register_delay(
                max(0, deadline_ms - wall_clock_ms()), partial(self._on_time, barriers, deadline_ms)
            )

    def _on_time(self, barriers: CheckpointBarriers, deadline_ms: int, _: int) -> None:
        self._timer = None
        barriers.on_time(max(deadline_ms, wall_clock_ms()))
        self._follow_deadline(barriers)

    # -- what the barrier handler says (BarrierListener)

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint now: the synchronous half. Of one with which the job ends that is a
        mail, since it may have records to emit; nothing comes behind its barriers."""
        assert self._chain is not None, "barriers come to a subtask that has begun"
        if barrier.options.kind.stops:
            assert self._stop is not None
            self._stopping, self._alignment = barrier.checkpoint_id, None
            self._stop.post(partial(self._take_and_hold, self._chain, barrier))
        else:
            self._take(self._chain, barrier)

    async def _take_and_hold(self, chain: OperatorChain, barrier: CheckpointBarrier) -> None:
        """Take a savepoint with which the job ends, and do nothing more until it is known what has
        become of it. Raises Stopped."""
        assert self._stop is not None
        checkpoint_id, self._stopping = barrier.checkpoint_id, -1
        if self._stop.is_aborted(checkpoint_id):
            return
        if barrier.options.kind is CheckpointKind.SAVEPOINT_TERMINATE:
            await self._thread.run(chain.end_of_input())
            self.has_emitted_all = True
        self._take(chain, barrier)
        self.complete(checkpoint_id, self._alignment or AlignmentMetrics())
        await self._stop.hold(checkpoint_id)

    def _take(self, chain: OperatorChain, barrier: CheckpointBarrier) -> None:
        assert self._channels is not None
        checkpoint_id = barrier.checkpoint_id
        began = task_time()
        try:
            # The barrier must not wait: the loop stands still until the chain's state is captured.
            snapshots = self._thread.call(
                partial(chain.snapshot, checkpoint_id, barrier.timestamp_ms)
            )
            in_flight = self._begin_channels(self._channels, barrier, snapshots)
        except Exception as error:
            if self._barriers is not None:
                self._barriers.abort(checkpoint_id, AbortReason.COORDINATOR)
            else:
                self.abort(checkpoint_id, AbortReason.COORDINATOR)
            self._refuse(checkpoint_id, CheckpointFailureReason.DECLINED, error)
            return
        self.taken = checkpoint_id
        sync_ms = (task_time() - began) * 1000
        self._captured[checkpoint_id] = _Captured(
            barrier, snapshots, in_flight, sync_ms, has_finished=self.has_emitted_all
        )

    def _take_as_finished(self, barrier: CheckpointBarrier) -> None:
        """Take a checkpoint behind the last record: what the barrier overtakes is all there is."""
        checkpoint_id = barrier.checkpoint_id
        ended = any(writer.partition.finished for writer in self._writers)
        if checkpoint_id <= self.taken or ended or not self._writers:
            return
        assert self._channels is not None, "the input of who has begun may end"
        try:
            in_flight = self._begin_channels(self._channels, barrier, [])
        except Exception as error:
            self._refuse(checkpoint_id, CheckpointFailureReason.DECLINED, error)
            return
        self.taken = checkpoint_id
        captured = _Captured(barrier, [], in_flight, 0.0, has_finished=True)
        if in_flight is not None:
            self._channels.complete_input(checkpoint_id)
        self._start(checkpoint_id, self._write(captured, AlignmentMetrics()))

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """A buffer is in flight."""
        if checkpoint_id in self._captured and self._channels is not None:
            self._channels.persist(checkpoint_id, channel, buffer)
        else:
            buffer.recycle()

    def complete(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """Every barrier has come: the asynchronous half begins."""
        if checkpoint_id == self._stopping:
            self._alignment = metrics
            return
        captured = self._captured.pop(checkpoint_id, None)
        if captured is None:
            return
        if captured.in_flight is not None and self._channels is not None:
            self._channels.complete_input(checkpoint_id)
        self._start(checkpoint_id, self._write(captured, metrics))

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """The checkpoint will not be."""
        self._drop(checkpoint_id)
        self._broadcast(CancelCheckpointMarker(checkpoint_id).event())
        declined = _DECLINED_AS[reason]
        if declined is not None:
            self._start(
                checkpoint_id,
                self._responder.decline(checkpoint_id, self._subtask, declined, reason.value),
            )

    # -- the end

    async def await_checkpoint(self) -> None:
        """Have the coordinator know that the subtask has nothing to do but wait for a checkpoint;
        all its outputs have been read to their ends."""
        await self._responder.await_checkpoint(self._subtask, self.taken)

    def end_input(self) -> None:
        """The chain has emitted its last record, and nothing of it is left to be captured."""
        self.has_emitted_all = self.input_has_ended = True

    async def finish(self) -> None:
        """Wait until all that was captured is written and acknowledged, or declined."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Write nothing more; idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._channels is not None:
            self._channels.close()
        for captured in self._captured.values():
            captured.close()
        self._captured.clear()

    # -- how

    def _begin_channels(
        self,
        channels: ChannelCapture,
        barrier: CheckpointBarrier,
        snapshots: list[OperatorSnapshot],
    ) -> InFlight | None:
        """Pass the barrier on; what the operators have captured is not kept if that fails."""
        try:
            return channels.begin(barrier)
        except BaseException:
            for snapshot in snapshots:
                self._thread.post(snapshot.close)
            raise

    def _broadcast(self, event: Event) -> None:
        """Write an event now: between two batches no record is in progress."""
        for writer in self._writers:
            if not writer.partition.finished:
                writer.partition.broadcast_event(*event)

    def _start(self, checkpoint_id: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = checkpoint_id
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _drop(self, checkpoint_id: int) -> None:
        captured = self._captured.pop(checkpoint_id, None)
        if captured is not None:
            self._thread.post(captured.close)
        if self._channels is not None:
            self._channels.abort(checkpoint_id, "the checkpoint was given up")
        for task, written in self._tasks.items():
            if written == checkpoint_id:
                task.cancel()

    def _refuse(
        self, checkpoint_id: int, reason: CheckpointFailureReason, error: Exception
    ) -> None:
        explanation = f"{type(error).__name__}: {text_of(error)}"
        self._start(
            checkpoint_id,
            self._responder.decline(checkpoint_id, self._subtask, reason, explanation),
        )

    async def _write(self, captured: _Captured, alignment: AlignmentMetrics) -> None:
        barrier = captured.barrier
        began = task_time()
        try:
            in_flight, operators = await _beside_each_other(
                self._write_in_flight(captured), self._write_operators(captured)
            )
            head, parts = operators[0]
            operators[0] = head, parts | in_flight
        except Exception as error:
            explanation = f"{type(error).__name__}: {text_of(error)}"
            await self._responder.decline(
                barrier.checkpoint_id,
                self._subtask,
                self._failure_of(captured, error),
                explanation,
            )
            return
        finally:
            self._thread.post(captured.close)
        report = SubtaskReport(
            handle=encode_handle(operators),
            start_delay_ms=alignment.start_delay_ms,
            alignment_ms=alignment.alignment_ms,
            sync_ms=captured.sync_ms,
            async_ms=(task_time() - began) * 1000,
            state_bytes=sum(part.size_bytes for _, parts in operators for part in parts.values()),
            processed_bytes=alignment.processed_bytes,
            persisted_bytes=sum(
                parts[kind].size_bytes
                for _, parts in operators
                for kind in _IN_FLIGHT & parts.keys()
            ),
            finished=captured.has_finished,
            unaligned=barrier.options.alignment is Alignment.UNALIGNED,
        )
        await self._responder.acknowledge(barrier.checkpoint_id, self._subtask, report)

    def _failure_of(self, captured: _Captured, error: Exception) -> CheckpointFailureReason:
        """Why the second half has failed: a later checkpoint, such as a savepoint, ends what the
        one before collects of its channels, and that says nothing about the job."""
        in_flight = captured.in_flight
        gave_way = in_flight is not None and in_flight.done() and in_flight.exception() is not None
        if gave_way and self.taken > captured.barrier.checkpoint_id:
            return CheckpointFailureReason.SUBSUMED
        if isinstance(error, CheckpointStorageFullError):
            return CheckpointFailureReason.STORAGE_FULL
        return CheckpointFailureReason.ASYNC_FAILURE

    async def _write_operators(
        self, captured: _Captured
    ) -> list[tuple[str, dict[StateKind, StatePart]]]:
        assert self._chain is not None, "what was captured is of a chain"
        if not captured.snapshots:
            return [(uid, {}) for uid in self._chain.uids]
        await self._chain.persist()
        operators = []
        pace = WritePace(task_time())
        for snapshot in captured.snapshots:
            await self._at_pace(pace, snapshot.detach())
        for number, snapshot in enumerate(captured.snapshots):
            await self._at_pace(pace, snapshot.slices())
            written = {StateKind.OPERATOR: snapshot.operator_pieces()}
            if not captured.has_finished:  # Nobody asks for a key any more.
                written[StateKind.KEYED] = snapshot.keyed_pieces()
            parts: dict[StateKind, StatePart] = {}
            for kind, pieces in written.items():
                blocks = labelled(kind, pieces)
                part = await self._write_part(captured.barrier, number, kind, blocks)
                if part is not None:
                    parts[kind] = part
            operators.append((snapshot.uid, parts))
        return operators

    async def _at_pace(self, pace: WritePace, steps: Iterator[None]) -> None:
        """Do one step after the other where the chain runs, whose state they read, and let that
        and the loop go on in between."""
        while await self._thread.work(partial(_do_some, pace, steps)):
            await asyncio.sleep(0)
            pace.resume(task_time())

    async def _write_in_flight(self, captured: _Captured) -> dict[StateKind, StatePart]:
        """Write what was in flight, once that is known; it is kept as the first operator's."""
        if captured.in_flight is None:
            return {}
        state = await captured.in_flight
        parts = await _beside_each_other(
            self._write_part(captured.barrier, 0, StateKind.INPUT, state.input_blocks()),
            self._write_part(captured.barrier, 0, StateKind.OUTPUT, state.output_blocks()),
        )
        kinds = (StateKind.INPUT, StateKind.OUTPUT)
        return {kind: part for kind, part in zip(kinds, parts, strict=True) if part is not None}

    async def _write_part(
        self,
        barrier: CheckpointBarrier,
        operator: int,
        kind: StateKind,
        blocks: Iterable[tuple[Label, bytes]],
    ) -> StatePart | None:
        is_savepoint = barrier.options.kind.is_savepoint
        directory = CheckpointDirectory(is_savepoint, barrier.checkpoint_id, self._attempt)
        vertex, index = self._subtask
        name = f"{vertex}-{index}-{operator}-{kind.value}"
        return await self._store.write_part(directory, name, blocks)


def labelled(kind: StateKind, pieces: Iterable[bytes | bytearray]) -> Iterator[tuple[Label, bytes]]:
    """Cut a part into sections, so that who reads it may do so in pieces."""
    number = size = 0
    for piece in pieces:
        yield number or kind.value, bytes(piece)
        size += len(piece)
        if size >= SECTION_BYTES and kind is StateKind.KEYED:
            number, size = number + 1, 0


def _do_some(pace: WritePace, steps: Iterator[None]) -> bool:
    """Do steps until the stint is over; return whether there may be more."""
    return any(pace.is_over(task_time()) for _ in steps)


async def _beside_each_other(
    one: Coroutine[Any, Any, First], other: Coroutine[Any, Any, Second]
) -> tuple[First, Second]:
    """Run both, the first one in this task: a busy loop takes a millisecond for each turn. If one
    fails, or this is cancelled, neither goes on."""
    try:
        async with asyncio.TaskGroup() as group:
            second = group.create_task(other)
            first = await one
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return first, second.result()

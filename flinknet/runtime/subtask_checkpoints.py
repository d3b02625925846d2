"""A subtask's part in checkpoints: capturing, writing and acknowledging its state.

Theory of operation
-------------------
A checkpoint has two halves. The *synchronous* half runs between two batches and is short. The
barrier goes to all writers, behind the results of all processed records, and the chain captures its
state. The *asynchronous* half is a task that runs while records are processed. It writes the
captured state, a slice at a time, and acknowledges it. In a subtask with inputs, ``BarrierHandler``
starts the first half. A mail triggers a source, or a subtask with finished inputs.

An error in either half declines the checkpoint and has no other effect. A subtask that aborts a
checkpoint tells its consumers, so that they do not wait for its barrier. ``checkpoint_part.py`` has
the states of a part; this class keeps a part until it is final. An abort cancels the writing but
never an answer: an answer, once decided, reaches the coordinator.

``taken`` is the newest captured checkpoint. A finished subtask must not be counted as finished in
that checkpoint or an earlier one.

A subtask that has emitted its last record reports it (``has_emitted_all``), so that operators
restored from the checkpoint do not end again. While it waits for its final checkpoint
(``await_checkpoint``), it captures state as usual, because the output to commit is in that state.
While it only waits for its consumers (``end_input``), it captures nothing: it sends the barrier
behind its last record and reports that it has finished. Once the ends of its outputs are written,
it takes part in checkpoints only by finishing.

Flink: SubtaskCheckpointCoordinatorImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

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
from flinknet.environment.cluster_clock import CLUSTER_CLOCK
from flinknet.environment.processing_time import (
    ProcessingTimeService,
    ScheduledTimer,
)
from flinknet.environment.savepoint_stop import SavepointStop
from flinknet.environment.task_thread import ChainThread
from flinknet.errors import CheckpointStorageFullError
from flinknet.net.task_clock import task_time
from flinknet.operators.record_slices import RecordSlices
from flinknet.records.reader import EventHandler, RecordReader
from flinknet.records.writer import RecordWriter
from flinknet.runtime.chain import OperatorChain
from flinknet.runtime.channel_capture import ChannelCapture, InFlight
from flinknet.runtime.checkpoint_part import Captured, CheckpointPart, PartState, Written
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
"""Size of a section of keyed state, which a reader reads at once."""

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
"""Reason that the coordinator gets for an aborted checkpoint; None for no message.

The coordinator knows of its own aborts. A subtask upstream that aborts a checkpoint reports it
itself, with the cause. Flink declines both, for reasons that never count
(CheckpointFailureManager)."""


class PartWriter(Protocol):
    """Writes state parts to the directory of their checkpoint."""

    config: CheckpointingConfig

    async def write_part(
        self, directory: CheckpointDirectory, name: str, blocks: Iterable[tuple[Label, bytes]]
    ) -> StatePart | None:
        """Write a part; see ``CheckpointStore.write_part``."""


class CheckpointResponder(Protocol):
    """Sends the answers of a subtask to the coordinator."""

    async def acknowledge(
        self, checkpoint_id: int, subtask: SubtaskId, report: SubtaskReport
    ) -> None:
        """Report that the subtask has written its state."""

    async def decline(
        self,
        checkpoint_id: int,
        subtask: SubtaskId,
        reason: CheckpointFailureReason,
        explanation: str,
    ) -> None:
        """Report that the subtask could not capture or write its state."""

    async def await_checkpoint(self, subtask: SubtaskId, taken: int) -> None:
        """Report that the subtask only waits for a checkpoint after ``taken``.

        Its consumers have read all of its output.
        """


@dataclass(frozen=True, slots=True)
class _Begun:
    """The components that take part in checkpoints once the chain is open."""

    chain: OperatorChain
    writers: Sequence[RecordWriter]
    channels: ChannelCapture
    barriers: CheckpointBarriers | None
    """None for a source."""
    timers: ProcessingTimeService
    stop: SavepointStop
    thread: ChainThread
    """Runs the chain."""
    others: EventHandler | None


class _Deadline(NamedTuple):
    """The barrier handler's deadline, and the timer for it."""

    at_ms: int
    timer: ScheduledTimer


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
        self.has_emitted_all = False
        """Whether the last record has been emitted."""
        self.input_has_ended = False
        """Whether the last record has been emitted and no state is left to be captured."""
        self._begun: _Begun | None = None
        self._deadline: _Deadline | None = None
        self._parts: dict[int, CheckpointPart] = {}
        """The parts that are not final, by checkpoint."""
        self._writing: dict[int, asyncio.Task[None]] = {}
        """The tasks that write and then answer, by checkpoint."""
        self._telling: set[asyncio.Task[None]] = set()
        """The tasks that decline checkpoints without having written them."""

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
        """Start taking part in checkpoints; the chain is open, and records come next.

        ``reader`` is None for a source. ``others`` handles the events that do not belong to
        checkpoints. ``slices`` cuts batches.
        """
        vertex, index = self._subtask
        name = f"subtask {index} of vertex {vertex}"
        channels = ChannelCapture(name, self._store.config, reader, writers, slices)
        barriers: CheckpointBarriers | None = None
        if reader is not None:
            kind = BarrierHandler if exactly_once else BarrierTracker
            barriers = kind(reader.gate, self, lambda: reader.bytes_in)
        self._begun = _Begun(chain, writers, channels, barriers, timers, stop, thread, others)

    # -- input, always between two batches

    def on_event(self, channel: int, event: Event) -> bool | None:
        """Handle an event from the reader.

        Returns True if the subtask must act before it reads more.
        """
        begun = self._begun
        if begun is None:
            return None
        if begun.barriers is not None:
            decoded = decode_event(event)
            handled = handle_event(begun.barriers, channel, decoded, CLUSTER_CLOCK.now_ms())
            self._follow_deadline(begun)
            if handled:
                return None
        return None if begun.others is None else begun.others.on_event(channel, event)

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> Coroutine[Any, Any, None] | None:
        """Begin a checkpoint at the request of the coordinator; ignored before ``begin``.

        The caller must await the returned coroutine, if any, before it does anything else.
        """
        begun = self._begun
        if begun is None:
            return None
        if self.input_has_ended:
            self._take_as_finished(begun, barrier)
        elif begun.barriers is not None:
            begun.barriers.on_trigger(barrier, CLUSTER_CLOCK.now_ms())
            self._follow_deadline(begun)
        elif barrier.checkpoint_id > self.taken:
            metrics = AlignmentMetrics(
                start_delay_ms=max(0, CLUSTER_CLOCK.now_ms() - barrier.timestamp_ms)
            )
            part = self._part_of(barrier)
            if barrier.options.kind.stops:
                # A source has no barriers to wait for. The part must be aligned before the hold,
                # which lasts until the savepoint has an outcome.
                self.complete(barrier.checkpoint_id, metrics)
                return self._take_and_hold(begun, part)
            self._take(begun, part)
            self.complete(barrier.checkpoint_id, metrics)
        return None

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Abort a checkpoint that the coordinator has given up."""
        begun = self._begun
        if begun is None:
            return
        if begun.barriers is not None and not self.input_has_ended:
            begun.barriers.abort(checkpoint_id, AbortReason.COORDINATOR)
            self._follow_deadline(begun)
        self._drop(begun, checkpoint_id)

    def _follow_deadline(self, begun: _Begun) -> None:
        """Have ``on_time`` called as a mail at the deadline of the barrier handler."""
        assert begun.barriers is not None, "a source has no deadline"
        deadline_ms = begun.barriers.deadline_ms
        if self._deadline is not None and self._deadline.at_ms != deadline_ms:
            begun.timers.cancel(self._deadline.timer)
            self._deadline = None
        if deadline_ms is not None and self._deadline is None:
            delay_ms = max(0, deadline_ms - CLUSTER_CLOCK.now_ms())
            on_time = partial(self._on_time, begun, begun.barriers, deadline_ms)
            self._deadline = _Deadline(deadline_ms, begun.timers.register_delay(delay_ms, on_time))

    def _on_time(
        self, begun: _Begun, barriers: CheckpointBarriers, deadline_ms: int, _: int
    ) -> None:
        self._deadline = None
        barriers.on_time(max(deadline_ms, CLUSTER_CLOCK.now_ms()))
        self._follow_deadline(begun)

    # -- calls of the barrier handler (BarrierListener)

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint now: the synchronous half.

        A savepoint that stops the job may still emit records, so it is taken in a mail. Nothing
        follows its barriers.
        """
        begun, part = self._running, self._part_of(barrier)
        if barrier.options.kind.stops:
            begun.stop.post(partial(self._take_and_hold, begun, part))
        else:
            self._take(begun, part)

    async def _take_and_hold(self, begun: _Begun, part: CheckpointPart) -> None:
        """Take a savepoint that stops the job, and wait for its outcome.

        Raises Stopped if it is complete; returns if it has failed.
        """
        checkpoint_id = part.barrier.checkpoint_id
        if part.is_final or begun.stop.is_aborted(checkpoint_id):
            return
        if part.barrier.options.kind is CheckpointKind.SAVEPOINT_TERMINATE:
            await begun.thread.run(begun.chain.end_of_input())
            self.has_emitted_all = True
        self._take(begun, part)
        await begun.stop.hold(checkpoint_id)

    def _take(self, begun: _Begun, part: CheckpointPart) -> None:
        barrier = part.barrier
        checkpoint_id = barrier.checkpoint_id
        began = task_time()
        try:
            # The loop waits until the chain's state is captured, because the barrier must not wait.
            snapshots = begun.thread.call(
                partial(begun.chain.snapshot, checkpoint_id, barrier.timestamp_ms)
            )
            in_flight = self._begin_channels(begun, barrier, snapshots)
        except Exception as error:
            self._refuse(part, error)
            # The abort unblocks channels and tells the consumers. With the reason COORDINATOR, it
            # sends no second message to the coordinator.
            if begun.barriers is not None:
                begun.barriers.abort(checkpoint_id, AbortReason.COORDINATOR)
            else:
                self.abort(checkpoint_id, AbortReason.COORDINATOR)
            return
        sync_ms = (task_time() - began) * 1000
        self._capture(begun, part, Captured(snapshots, in_flight, sync_ms, self.has_emitted_all))

    def _take_as_finished(self, begun: _Begun, barrier: CheckpointBarrier) -> None:
        """Take a checkpoint after the last record: the state is only the data in flight."""
        checkpoint_id = barrier.checkpoint_id
        # Once its ends are written, the subtask takes part only by finishing.
        ended = any(writer.partition.finished for writer in begun.writers)
        if checkpoint_id <= self.taken or ended or not begun.writers:
            return
        part = self._part_of(barrier)
        try:
            in_flight = self._begin_channels(begun, barrier, [])
        except Exception as error:
            self._refuse(part, error)
            return
        self._capture(begun, part, Captured([], in_flight, 0.0, has_finished=True))
        self.complete(checkpoint_id, AlignmentMetrics())

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """Add a buffer in flight to the part, or recycle it."""
        part = self._parts.get(checkpoint_id)
        if part is not None and part.state is PartState.CAPTURED:
            self._running.channels.persist(checkpoint_id, channel, buffer)
        else:
            buffer.recycle()

    def complete(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """Note that every barrier has arrived; start the asynchronous half if the first is done."""
        part = self._parts.get(checkpoint_id)
        written = None if part is None else part.align(metrics)
        if part is not None and written is not None:
            self._begin_to_write(self._running, part, written)

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Abort the checkpoint, tell the consumers, and decline it where ``reason`` requires it."""
        begun = self._running
        self._drop(begun, checkpoint_id)
        self._broadcast(begun, CancelCheckpointMarker(checkpoint_id).event())
        declined = _DECLINED_AS[reason]
        if declined is not None:
            self._decline(checkpoint_id, declined, reason.value)

    # -- the end

    async def await_checkpoint(self) -> None:
        """Tell the coordinator that the subtask only waits for a checkpoint.

        All of its outputs have been read to their ends.
        """
        await self._responder.await_checkpoint(self._subtask, self.taken)

    def end_input(self) -> None:
        """Note that the chain has emitted its last record and has no state left to capture."""
        self.has_emitted_all = self.input_has_ended = True

    async def finish(self) -> None:
        """Wait until all captured state is written and acknowledged, or declined."""
        while tasks := {*self._writing.values(), *self._telling}:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop writing and release the captured state. Idempotent."""
        tasks = [*self._writing.values(), *self._telling]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._begun is not None:
            self._begun.channels.close()
        for part in self._parts.values():
            captured = part.abort()
            if captured is not None:
                captured.close()
        self._parts.clear()

    # -- implementation

    @property
    def _running(self) -> _Begun:
        assert self._begun is not None, "barriers arrive at a subtask that has begun"
        return self._begun

    def _part_of(self, barrier: CheckpointBarrier) -> CheckpointPart:
        """Create the subtask's part in a checkpoint."""
        self._parts[barrier.checkpoint_id] = part = CheckpointPart(barrier)
        return part

    def _begin_channels(
        self, begun: _Begun, barrier: CheckpointBarrier, snapshots: list[OperatorSnapshot]
    ) -> InFlight | None:
        """Pass the barrier on; if that fails, close the snapshots of the operators."""
        try:
            return begun.channels.begin(barrier)
        except BaseException:
            for snapshot in snapshots:
                begun.thread.post(snapshot.close)
            raise

    def _broadcast(self, begun: _Begun, event: Event) -> None:
        """Write an event to all outputs at once; between two batches no record is in progress."""
        for writer in begun.writers:
            if not writer.partition.finished:
                writer.partition.broadcast_event(*event)

    def _capture(self, begun: _Begun, part: CheckpointPart, captured: Captured) -> None:
        self.taken = part.barrier.checkpoint_id
        written = part.capture(captured)
        if written is not None:
            self._begin_to_write(begun, part, written)

    def _begin_to_write(self, begun: _Begun, part: CheckpointPart, written: Written) -> None:
        checkpoint_id = part.barrier.checkpoint_id
        if written.captured.in_flight is not None:
            begun.channels.complete_input(checkpoint_id)
        task = asyncio.create_task(self._write(begun, part, written))
        self._writing[checkpoint_id] = task
        # A ``finally`` in the task would not run if the task was cancelled before its first step.
        task.add_done_callback(partial(self._end_writing, begun, checkpoint_id, written.captured))

    def _end_writing(
        self, begun: _Begun, checkpoint_id: int, captured: Captured, _: asyncio.Task[None]
    ) -> None:
        """Release the captured state, even if the task was cancelled before it began."""
        del self._writing[checkpoint_id]
        begun.thread.post(captured.close)

    def _drop(self, begun: _Begun, checkpoint_id: int) -> None:
        begun.channels.abort(checkpoint_id, "the checkpoint was aborted")
        part = self._parts.pop(checkpoint_id, None)
        if part is None:
            return
        if part.state is PartState.WRITING:
            self._writing[checkpoint_id].cancel()
        captured = part.abort()
        if captured is not None:
            begun.thread.post(captured.close)

    def _refuse(self, part: CheckpointPart, error: Exception) -> None:
        """Decline a checkpoint because the state cannot be captured."""
        checkpoint_id = part.barrier.checkpoint_id
        del self._parts[checkpoint_id]
        part.refuse()
        self._decline(checkpoint_id, CheckpointFailureReason.DECLINED, _explained(error))

    def _decline(
        self, checkpoint_id: int, reason: CheckpointFailureReason, explanation: str
    ) -> None:
        task = asyncio.create_task(
            self._responder.decline(checkpoint_id, self._subtask, reason, explanation)
        )
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _write(self, begun: _Begun, part: CheckpointPart, written: Written) -> None:
        """Write a part and send the answer.

        The part is final as soon as the answer is decided, so that an abort does not cancel the
        sending.
        """
        checkpoint_id = part.barrier.checkpoint_id
        began = task_time()
        try:
            in_flight, operators = await _beside_each_other(
                self._write_in_flight(written), self._write_operators(begun, written)
            )
            head, parts = operators[0]
            operators[0] = head, parts | in_flight
            report = _report(written, operators, (task_time() - began) * 1000)
        except Exception as error:
            if part.is_final:  # The task was cancelled, but a failure came first.
                return
            del self._parts[checkpoint_id]
            part.refuse()
            reason = self._failure_of(written, error)
            await self._responder.decline(checkpoint_id, self._subtask, reason, _explained(error))
        else:
            del self._parts[checkpoint_id]
            part.acknowledge()
            await self._responder.acknowledge(checkpoint_id, self._subtask, report)

    def _failure_of(self, written: Written, error: Exception) -> CheckpointFailureReason:
        """Return the reason for a failure of the asynchronous half.

        A later checkpoint, such as a savepoint, ends the collection of channel state for the one
        before. The reason is then SUBSUMED: the failure says nothing about the job.
        """
        in_flight = written.captured.in_flight
        gave_way = in_flight is not None and in_flight.done() and in_flight.exception() is not None
        if gave_way and self.taken > written.barrier.checkpoint_id:
            return CheckpointFailureReason.SUBSUMED
        if isinstance(error, CheckpointStorageFullError):
            return CheckpointFailureReason.STORAGE_FULL
        return CheckpointFailureReason.ASYNC_FAILURE

    async def _write_operators(
        self, begun: _Begun, written: Written
    ) -> list[tuple[str, dict[StateKind, StatePart]]]:
        captured = written.captured
        if not captured.snapshots:
            return [(uid, {}) for uid in begun.chain.uids]
        await begun.chain.persist()
        operators = []
        pace = WritePace(task_time())
        # All operators first: until its capture is detached, an operator is slower than before.
        for snapshot in captured.snapshots:
            await self._at_pace(begun, pace, snapshot.detach())
        for number, snapshot in enumerate(captured.snapshots):
            await self._at_pace(begun, pace, snapshot.slices())
            kinds = {StateKind.OPERATOR: snapshot.operator_pieces()}
            if not captured.has_finished:  # Keyed state is not used after the last record.
                kinds[StateKind.KEYED] = snapshot.keyed_pieces()
            parts: dict[StateKind, StatePart] = {}
            for kind, pieces in kinds.items():
                blocks = labelled(kind, pieces)
                part = await self._write_part(written.barrier, number, kind, blocks)
                if part is not None:
                    parts[kind] = part
            operators.append((snapshot.uid, parts))
        return operators

    async def _at_pace(self, begun: _Begun, pace: WritePace, steps: Iterator[None]) -> None:
        """Run the steps in the thread of the chain, because they read its state.

        Between two stints the chain and the event loop go on.
        """
        while await begun.thread.work(partial(_do_some, pace, steps)):
            await asyncio.sleep(0)
            pace.resume(task_time())

    async def _write_in_flight(self, written: Written) -> dict[StateKind, StatePart]:
        """Write the data in flight when it is complete; it is stored with the first operator."""
        if written.captured.in_flight is None:
            return {}
        state = await written.captured.in_flight
        parts = await _beside_each_other(
            self._write_part(written.barrier, 0, StateKind.INPUT, state.input_blocks()),
            self._write_part(written.barrier, 0, StateKind.OUTPUT, state.output_blocks()),
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


def _report(
    written: Written, operators: list[tuple[str, dict[StateKind, StatePart]]], async_ms: float
) -> SubtaskReport:
    alignment, captured = written.alignment, written.captured
    return SubtaskReport(
        handle=encode_handle(operators),
        start_delay_ms=alignment.start_delay_ms,
        alignment_ms=alignment.alignment_ms,
        sync_ms=captured.sync_ms,
        async_ms=async_ms,
        state_bytes=sum(part.size_bytes for _, parts in operators for part in parts.values()),
        processed_bytes=alignment.processed_bytes,
        persisted_bytes=sum(
            parts[kind].size_bytes for _, parts in operators for kind in _IN_FLIGHT & parts.keys()
        ),
        finished=captured.has_finished,
        unaligned=written.barrier.options.alignment is Alignment.UNALIGNED,
    )


def _explained(error: Exception) -> str:
    return f"{type(error).__name__}: {text_of(error)}"


def labelled(kind: StateKind, pieces: Iterable[bytes | bytearray]) -> Iterator[tuple[Label, bytes]]:
    """Cut a part into sections, so that a reader can read it in pieces."""
    number = size = 0
    for piece in pieces:
        yield number or kind.value, bytes(piece)
        size += len(piece)
        if size >= SECTION_BYTES and kind is StateKind.KEYED:
            number, size = number + 1, 0


def _do_some(pace: WritePace, steps: Iterator[None]) -> bool:
    """Run steps until the stint is over; return whether more steps may follow."""
    return any(pace.is_over(task_time()) for _ in steps)


async def _beside_each_other(
    one: Coroutine[Any, Any, First], other: Coroutine[Any, Any, Second]
) -> tuple[First, Second]:
    """Run both concurrently. If one fails, or this is cancelled, neither goes on.

    The first runs in the current task: on a busy loop, each turn costs a millisecond.
    """
    try:
        async with asyncio.TaskGroup() as group:
            second = group.create_task(other)
            first = await one
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return first, second.result()

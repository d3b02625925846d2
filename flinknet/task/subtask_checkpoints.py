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

Flink: SubtaskCheckpointCoordinatorImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from flinknet.buffer.buffer import Buffer
from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.checkpoint.barrier_events import CheckpointBarriers, handle_event
from flinknet.checkpoint.barrier_handler import BarrierHandler
from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.checkpoint.barrier_tracker import BarrierTracker
from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.metadata import CheckpointDirectory, StateKind, StatePart
from flinknet.checkpoint.pending_checkpoint import SubtaskId, SubtaskReport
from flinknet.checkpoint.state_handle import encode_handle
from flinknet.checkpoint.store import CheckpointStore
from flinknet.net.task_clock import task_time
from flinknet.records.reader import EventHandler, RecordReader
from flinknet.records.writer import RecordWriter
from flinknet.task.chain import OperatorChain
from flinknet.task.processing_time import wall_clock_ms
from flinknet.task.state.state_handler import OperatorSnapshot
from flinknet.task.write_pace import WritePace
from flinknet.texts import text_of
from flinknet.wire.events import CancelCheckpointMarker, CheckpointBarrier, Event, decode_event

__all__ = ["CheckpointResponder", "SubtaskCheckpoints"]

_SILENT = (AbortReason.SUBSUMED, AbortReason.COORDINATOR)
"""What the coordinator knows by itself."""


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


class _Captured:
    """What the first half of a checkpoint has left for the second."""

    def __init__(
        self, barrier: CheckpointBarrier, snapshots: list[OperatorSnapshot], sync_ms: float
    ) -> None:
        self.barrier = barrier
        self.snapshots = snapshots
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
        store: CheckpointStore,
        responder: CheckpointResponder,
    ) -> None:
        self.taken = -1
        self._subtask = subtask
        self._attempt = attempt
        self._store = store
        self._responder = responder
        self._chain: OperatorChain | None = None
        self._writers: Sequence[RecordWriter] = ()
        self._barriers: CheckpointBarriers | None = None
        self._others: EventHandler | None = None
        self._captured: dict[int, _Captured] = {}
        self._tasks: dict[asyncio.Task[None], int] = {}

    def begin(
        self,
        chain: OperatorChain,
        writers: Sequence[RecordWriter],
        reader: RecordReader | None,
        *,
        exactly_once: bool,
        others: EventHandler | None = None,
    ) -> None:
        """The chain is open, and records come next; ``reader`` is None for a source. ``others``
        handles the events that are not about checkpoints."""
        self._others = others
        self._chain = chain
        self._writers = writers
        if reader is not None:
            kind = BarrierHandler if exactly_once else BarrierTracker
            self._barriers = kind(reader.gate, self, lambda: reader.bytes_in)

    # -- what comes, always between two batches

    def on_event(self, channel: int, event: Event) -> bool | None:
        """The reader delivers an event; True if the subtask has something to do before more is
        read."""
        if self._barriers is not None:
            decoded = decode_event(event)
            if handle_event(self._barriers, channel, decoded, wall_clock_ms()):
                return None
        return None if self._others is None else self._others.on_event(channel, event)

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """The coordinator has this subtask begin a checkpoint; nothing happens before ``begin``."""
        if self._chain is None:
            return
        if self._barriers is not None:
            self._barriers.on_trigger(barrier, wall_clock_ms())
        elif barrier.checkpoint_id > self.taken:
            delay_ms = max(0, wall_clock_ms() - barrier.timestamp_ms)
            self.trigger(barrier)
            self.complete(barrier.checkpoint_id, AlignmentMetrics(start_delay_ms=delay_ms))

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """The coordinator has given a checkpoint up."""
        if self._barriers is not None:
            self._barriers.abort(checkpoint_id, AbortReason.COORDINATOR)
        self._drop(checkpoint_id)

    # -- what the barrier handler says (BarrierListener)

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint now: the synchronous half."""
        assert self._chain is not None, "barriers come to a subtask that has begun"
        checkpoint_id = barrier.checkpoint_id
        began = task_time()
        try:
            snapshots = self._chain.snapshot(checkpoint_id, barrier.timestamp_ms)
            self._broadcast(barrier.event())
        except Exception as error:
            if self._barriers is not None:
                self._barriers.abort(checkpoint_id, AbortReason.COORDINATOR)
            else:
                self.abort(checkpoint_id, AbortReason.COORDINATOR)
            self._refuse(checkpoint_id, CheckpointFailureReason.DECLINED, error)
            return
        self.taken = checkpoint_id
        sync_ms = (task_time() - began) * 1000
        self._captured[checkpoint_id] = _Captured(barrier, snapshots, sync_ms)

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """Aligned checkpoints have nothing in flight."""
        raise AssertionError("an aligned checkpoint persists nothing")

    def complete(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """Every barrier has come: the asynchronous half begins."""
        captured = self._captured.pop(checkpoint_id, None)
        if captured is not None:
            self._start(checkpoint_id, self._write(captured, metrics))

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """The checkpoint will not be."""
        self._drop(checkpoint_id)
        self._broadcast(CancelCheckpointMarker(checkpoint_id).event())
        if reason not in _SILENT:
            declined = CheckpointFailureReason.DECLINED
            self._start(
                checkpoint_id,
                self._responder.decline(checkpoint_id, self._subtask, declined, reason.value),
            )

    # -- the end

    async def finish(self) -> None:
        """Wait until all that was captured is written and acknowledged, or declined."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Write nothing more; idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for captured in self._captured.values():
            captured.close()
        self._captured.clear()

    # -- how

    def _broadcast(self, event: Event) -> None:
        """Write an event now: between two batches no record is in progress."""
        for writer in self._writers:
            writer.partition.broadcast_event(*event)

    def _start(self, checkpoint_id: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = checkpoint_id
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _drop(self, checkpoint_id: int) -> None:
        captured = self._captured.pop(checkpoint_id, None)
        if captured is not None:
            captured.close()
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
            operators = await self._write_operators(captured)
        except Exception as error:
            explanation = f"{type(error).__name__}: {text_of(error)}"
            await self._responder.decline(
                barrier.checkpoint_id,
                self._subtask,
                CheckpointFailureReason.ASYNC_FAILURE,
                explanation,
            )
            return
        finally:
            captured.close()
        report = SubtaskReport(
            handle=encode_handle(operators),
            start_delay_ms=alignment.start_delay_ms,
            alignment_ms=alignment.alignment_ms,
            sync_ms=captured.sync_ms,
            async_ms=(task_time() - began) * 1000,
            state_bytes=sum(part.size_bytes for _, parts in operators for part in parts.values()),
            processed_bytes=alignment.processed_bytes,
            persisted_bytes=alignment.persisted_bytes,
        )
        await self._responder.acknowledge(barrier.checkpoint_id, self._subtask, report)

    async def _write_operators(
        self, captured: _Captured
    ) -> list[tuple[str, dict[StateKind, StatePart]]]:
        barrier = captured.barrier
        is_savepoint = barrier.options.kind.is_savepoint
        directory = CheckpointDirectory(is_savepoint, barrier.checkpoint_id, self._attempt)
        vertex, index = self._subtask
        operators = []
        pace = WritePace(task_time())
        for number, snapshot in enumerate(captured.snapshots):
            for _ in snapshot.slices():
                if pace.is_over(task_time()):
                    await asyncio.sleep(0)
                    pace.resume(task_time())
            written = {
                StateKind.KEYED: snapshot.keyed_pieces(),
                StateKind.OPERATOR: snapshot.operator_pieces(),
            }
            parts: dict[StateKind, StatePart] = {}
            for kind, pieces in written.items():
                name = f"{vertex}-{index}-{number}-{kind.value}"
                blocks = ((kind.value, bytes(piece)) for piece in pieces)
                part = await self._store.write_part(directory, name, blocks)
                if part is not None:
                    parts[kind] = part
            operators.append((snapshot.uid, parts))
        return operators

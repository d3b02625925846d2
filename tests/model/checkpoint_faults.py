"""Bugs to plant in the checkpoint code: each causes an inconsistent checkpoint or a deadlock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.checkpoint.barrier_handler import BarrierHandler, BarrierState
from flinknet.consumer.channel_state_persister import ChannelStatePersister
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.partition.timeoutable_barrier import TimeoutableBarrier
from flinknet.wire.events import Alignment, CheckpointBarrier
from tests.model.checkpoint_shape import CheckpointShape
from tests.model.faults import Fault

ALIGNED = CheckpointShape(("dAd", "A"))
ENDING = CheckpointShape(("Ad", "DE"))
ENDED_BEFORE = CheckpointShape(("AA", "ADE"))
CANCELLED = CheckpointShape(("Ad", "X"))
ABORTED = CheckpointShape(("dAd", "A"), aborts=1)
TWO = CheckpointShape(("AdA", "AA"))
UNALIGNED = CheckpointShape(("dUd", "U"))
UNALIGNED_CANCELLED = CheckpointShape(("Ud", "dX"))
LOCAL = CheckpointShape(("dUd", "U"), local=(0,))
OPEN = CheckpointShape(("ofUad", "U"))
MIXED = CheckpointShape(("U", "dFd"))
SAVEPOINT = CheckpointShape(("AU", "AU"))
ALTERNATING = CheckpointShape(("T", "Td"), times=True)
ONE_ALTERNATING = CheckpointShape(("Td",), times=True)
LOCAL_ALTERNATING = CheckpointShape(("dT",), local=(0,), times=True)

Original = Callable[..., Any]


class Deaf:
    """A connection that does not send ``resume_consumption``."""

    def resume_consumption(self, channel: RemoteInputChannel) -> None:
        """Do nothing."""


def _does_nothing(original: Original) -> Original:
    def nothing(self: Any, *arguments: Any) -> None:
        """Do nothing."""

    return nothing


def _waits_for_nobody(original: Original) -> Original:
    def had_barrier(self: BarrierHandler, channel: int, now_ms: int) -> None:
        original(self, channel, now_ms)
        self._missing.clear()

    return had_barrier


def _keeps_what_comes_late(original: Original) -> Original:
    def on_barrier(
        self: BarrierHandler, channel: int, barrier: CheckpointBarrier, now_ms: int
    ) -> None:
        if not self._is_late(barrier.checkpoint_id):
            original(self, channel, barrier, now_ms)

    return on_barrier


def _forgets_who_is_blocked(original: Original) -> Original:
    def abort(self: BarrierHandler, *arguments: Any) -> None:
        self._blocked.clear()
        original(self, *arguments)

    return abort


def _does_not_remember(original: Original) -> Original:
    def abort(self: BarrierHandler, checkpoint_id: int, *arguments: Any) -> None:
        before = self.checkpoint_id
        original(self, checkpoint_id, *arguments)
        if not self.is_pending:
            self.checkpoint_id = before

    return abort


def _only_closes(original: Original) -> Original:
    def on_end_of_partition(self: BarrierHandler, channel: int, now_ms: int) -> None:
        self._open.discard(channel)

    return on_end_of_partition


def _stays_open(original: Original) -> Original:
    def on_end_of_partition(self: BarrierHandler, channel: int, now_ms: int) -> None:
        original(self, channel, now_ms)
        self._open.add(channel)

    return on_end_of_partition


def _takes_without_letting_go(original: Original) -> Original:
    def overtake(self: BarrierHandler, barrier: CheckpointBarrier) -> None:
        self._blocked = []
        original(self, barrier)

    return overtake


def _takes_late(original: Original) -> Original:
    """Take an unaligned checkpoint only when its last barrier has come."""

    def on_barrier(
        self: BarrierHandler, channel: int, barrier: CheckpointBarrier, now_ms: int
    ) -> None:
        if barrier.options.alignment is Alignment.UNALIGNED and not self.is_pending:
            self._begin(barrier, now_ms)
            self.state = BarrierState.ALIGNING
            self._had_barrier(channel, now_ms)
            self._settle(now_ms)
        else:
            original(self, channel, barrier, now_ms)

    return on_barrier


def _blocks_although_it_was_taken(original: Original) -> Original:
    def on_barrier(
        self: BarrierHandler, channel: int, barrier: CheckpointBarrier, now_ms: int
    ) -> None:
        if self.state is BarrierState.PERSISTING and barrier.options.data_type.is_blocking_upstream:
            self._had_barrier(channel, now_ms)
            self._settle(now_ms)
        else:
            original(self, channel, barrier, now_ms)

    return on_barrier


def _persists_one_too_few(original: Original) -> Original:
    def overtake(self: BarrierHandler, barrier: CheckpointBarrier) -> None:
        first = min(self._missing)
        self._missing.discard(first)
        original(self, barrier)
        self._missing.add(first)

    return overtake


def _starts_with_nothing(original: Original) -> Original:
    def start_persisting(self: RemoteInputChannel, checkpoint_id: int, persist: Any) -> bool:
        return self._persister.start(checkpoint_id, persist)

    return start_persisting


def _starts_with_everything(original: Original) -> Original:
    def place_of_barrier(self: ChannelStatePersister) -> None:
        return None

    return place_of_barrier


def _goes_on_behind_the_barrier(original: Original) -> Original:
    def on_event(self: ChannelStatePersister, *arguments: Any) -> None:
        persist, state = self.persist, self.state
        original(self, *arguments)
        self.persist, self.state = persist, state

    return on_event


def _stops_at_once(original: Original) -> Original:
    def start(self: ChannelStatePersister, checkpoint_id: int, persist: Any) -> bool:
        started = bool(original(self, checkpoint_id, persist))
        self.stop(checkpoint_id)
        return started

    return start


def _stays_blocked(original: Original) -> Original:
    def convert_to_priority_event(self: RemoteInputChannel, checkpoint_id: int) -> bool:
        client = self._client
        self._client = Deaf()  # type: ignore[assignment]
        try:
            return bool(original(self, checkpoint_id))
        finally:
            self._client = client

    return convert_to_priority_event


def _hands_out_nothing(original: Original) -> Original:
    def overtaken(self: PipelinedSubpartition, *arguments: Any) -> list[Buffer]:
        for buffer in original(self, *arguments):
            buffer.recycle()
        return []

    return overtaken


def _leaves_out_what_is_open(original: Original) -> Original:
    def overtaken_data(self: PipelinedSubpartition) -> list[Buffer]:
        builder, self._open = self._open, None
        try:
            return list(original(self))
        finally:
            self._open = builder

    return overtaken_data


def _never_blocks(original: Original) -> Original:
    def poll(self: PipelinedSubpartition) -> Any:
        polled = original(self)
        if polled is not None and polled.buffer.data_type.is_blocking_upstream:
            self._blocked = False
        return polled

    return poll


def _overtakes_a_buffer_less(original: Original) -> Original:
    def add_event(self: PipelinedSubpartition, buffer: Buffer) -> None:
        original(self, buffer)
        if buffer.data_type is DataType.PRIORITIZED_EVENT_BUFFER and len(self._queue) > 1:
            self._queue[0], self._queue[1] = self._queue[1], self._queue[0]

    return add_event


def _hands_out_what_was_read(original: Original) -> Original:
    def settle(self: TimeoutableBarrier, index: int, overtaken: list[Buffer]) -> None:
        original(self, index, [*overtaken, *(buffer.retained() for buffer in overtaken)])

    return settle


CHECKPOINT_FAULTS = (
    # The handler: when a checkpoint is taken.
    Fault("one barrier is enough", ALIGNED, BarrierHandler, "_had_barrier", _waits_for_nobody),
    Fault("an end is no barrier", ENDING, BarrierHandler, "on_end_of_partition", _only_closes),
    Fault(
        "the barrier of a channel that has ended is waited for",
        ENDED_BEFORE,
        BarrierHandler,
        "on_end_of_partition",
        _stays_open,
    ),
    Fault(
        "an unaligned checkpoint waits for its barriers",
        UNALIGNED,
        BarrierHandler,
        "on_barrier",
        _takes_late,
    ),
    # The handler: which channels are blocked.
    Fault("nobody goes on behind a barrier", ALIGNED, BarrierHandler, "_let_go", _does_nothing),
    Fault(
        "a channel whose barrier comes late stays blocked",
        ABORTED,
        BarrierHandler,
        "on_barrier",
        _keeps_what_comes_late,
    ),
    Fault(
        "channels stay blocked after an abort",
        ABORTED,
        BarrierHandler,
        "_abort",
        _forgets_who_is_blocked,
    ),
    Fault(
        "channels stay blocked after a time-out",
        ALTERNATING,
        BarrierHandler,
        "_overtake",
        _takes_without_letting_go,
    ),
    Fault(
        "an exchange that aligns stays blocked when others have overtaken",
        MIXED,
        BarrierHandler,
        "on_barrier",
        _blocks_although_it_was_taken,
    ),
    Fault(
        "a newer checkpoint does not subsume an older one",
        SAVEPOINT,
        BarrierHandler,
        "_subsume",
        _does_nothing,
    ),
    # The handler: cancelled and aborted checkpoints.
    Fault(
        "a cancel marker is not heard",
        CANCELLED,
        BarrierHandler,
        "on_cancellation",
        _does_nothing,
    ),
    Fault(
        "an abort is forgotten before the barriers come",
        CANCELLED,
        BarrierHandler,
        "abort",
        _does_not_remember,
    ),
    # In-flight data at the input.
    Fault(
        "a channel is not told to persist",
        UNALIGNED,
        BarrierHandler,
        "_overtake",
        _persists_one_too_few,
    ),
    Fault(
        "what has arrived already is not in flight",
        UNALIGNED,
        RemoteInputChannel,
        "start_persisting",
        _starts_with_nothing,
    ),
    Fault(
        "what has arrived behind the barrier is in flight",
        UNALIGNED,
        ChannelStatePersister,
        "place_of_barrier",
        _starts_with_everything,
    ),
    Fault(
        "what arrives later is not in flight",
        UNALIGNED,
        ChannelStatePersister,
        "start",
        _stops_at_once,
    ),
    Fault(
        "what arrives behind the barrier is in flight",
        UNALIGNED,
        ChannelStatePersister,
        "on_event",
        _goes_on_behind_the_barrier,
    ),
    # In-flight data at the output.
    Fault(
        "what an event overtakes is not handed out",
        UNALIGNED,
        PipelinedSubpartition,
        "overtaken_data",
        _hands_out_nothing,
    ),
    Fault(
        "what an event overtakes in a local channel is not handed out",
        LOCAL,
        PipelinedSubpartition,
        "overtaken_data",
        _hands_out_nothing,
    ),
    Fault(
        "an open buffer is not handed out",
        OPEN,
        PipelinedSubpartition,
        "overtaken_data",
        _leaves_out_what_is_open,
    ),
    Fault(
        "an event overtakes less than it says",
        UNALIGNED,
        PipelinedSubpartition,
        "add_event",
        _overtakes_a_buffer_less,
    ),
    Fault(
        "a channel is not blocked by its barrier",
        ALIGNED,
        PipelinedSubpartition,
        "poll",
        _never_blocks,
    ),
    # Time-outs.
    Fault(
        "what a barrier overtakes whose time is over is not handed out",
        LOCAL_ALTERNATING,
        PipelinedSubpartition,
        "prioritize",
        _hands_out_nothing,
    ),
    Fault(
        "what a barrier overtakes is handed out twice",
        LOCAL_ALTERNATING,
        TimeoutableBarrier,
        "settle",
        _hands_out_what_was_read,
    ),
    Fault(
        "a channel stays blocked by a barrier that has become unaligned",
        ONE_ALTERNATING,
        RemoteInputChannel,
        "convert_to_priority_event",
        _stays_blocked,
    ),
)

"""What a checkpoint stores of a subtask's channels: the data that its barriers overtake.

Theory of operation. An aligned checkpoint stores nothing of them. For any other the subtask's
barrier goes to all writers, and what it overtakes there is the state of the outputs: known at once,
or, if the barrier waits in the queues because it may still be taken in time, when every reader has
had it or its time is over. What is in flight at the inputs begins with what the subtask has read
and not processed: the parts of records that its deserializers hold. Behind that comes what the
barrier handler hands out, until every channel has had its barrier.

``ChannelStateWriter`` collects both. The future that ``begin`` returns has them when both are
complete, or the error for which they never will be. An output that has been finished gets no
barrier: its end, which stands behind all its data, is one to whoever reads it.

Watermarks and idle status are no data: those that a barrier overtakes are not stored. After a
restore event time is late until the next one comes, and never wrong.

A time-out of the outputs is a timer of the event loop's, and no mail: a subtask that waits for
memory in the middle of a batch has its barriers overtake what it waits for all the same.

Flink: SubtaskCheckpointCoordinatorImpl with ChannelStateWriterImpl; the alignment timer is that of
its registerAlignmentTimer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from flinknet.buffer.buffer import Buffer
from flinknet.checkpoint.channel_state import ChannelLabel, ChannelState, ChannelStateWriter
from flinknet.config import CheckpointingConfig
from flinknet.environment.cluster_clock import CLUSTER_CLOCK
from flinknet.errors import FlinknetError
from flinknet.operators.record_slices import RecordSlices
from flinknet.partition.timeoutable_barrier import OvertakenData
from flinknet.records.reader import RecordReader
from flinknet.records.writer import RecordWriter
from flinknet.wire.events import Alignment, CheckpointBarrier

__all__ = ["ChannelCapture", "InFlight"]

InFlight = asyncio.Future[ChannelState]


class ChannelCapture:
    """The channels of one subtask, as its checkpoints see them."""

    def __init__(
        self,
        subtask: str,
        config: CheckpointingConfig,
        reader: RecordReader | None,
        writers: Sequence[RecordWriter],
        slices: RecordSlices | None = None,
    ) -> None:
        """``slices`` knows what was read and is not processed, if that can be interrupted."""
        self._reader = reader
        self._slices = slices
        self._partitions = [writer.partition for writer in writers]
        self._state = ChannelStateWriter(subtask, config)
        self._labels = [] if reader is None else _labels(reader)
        self._unsettled: dict[int, int] = {}
        """Partitions of which it is not known yet what the barrier overtakes, by checkpoint."""
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def begin(self, barrier: CheckpointBarrier) -> InFlight | None:
        """Write the barrier to all outputs, and collect what is in flight; None if nothing can be.

        Raises LocalProtocolError as ``broadcast_event``; then nothing is collected."""
        checkpoint_id, options = barrier.checkpoint_id, barrier.options
        partitions = [
            (number, partition)
            for number, partition in enumerate(self._partitions)
            if not partition.finished
        ]
        if options.alignment is not Alignment.UNALIGNED and not options.is_timeoutable:
            for _, partition in partitions:
                partition.broadcast_event(*barrier.event())
            return None
        in_flight: InFlight = asyncio.get_running_loop().create_future()
        self._state.start(checkpoint_id, partial(_settle, in_flight))
        if options.alignment is Alignment.UNALIGNED:
            self._add_unconsumed(checkpoint_id)
        self._unsettled[checkpoint_id] = len(partitions)
        try:
            for number, partition in partitions:
                partition.broadcast_barrier(barrier, partial(self._settled, checkpoint_id, number))
        except BaseException:
            self.abort(checkpoint_id, "its barrier could not be written")
            raise
        if not partitions:
            self._finish_output(checkpoint_id)
        elif options.aligned_timeout_ms is not None and checkpoint_id in self._unsettled:
            # The clock may have been set back since the barrier was made.
            age_ms = max(0, CLUSTER_CLOCK.now_ms() - barrier.timestamp_ms)
            self._timers[checkpoint_id] = asyncio.get_running_loop().call_later(
                max(0, options.aligned_timeout_ms - age_ms) / 1000, self._time_out, checkpoint_id
            )
        return in_flight

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """A buffer is in flight; its reference is taken over."""
        self._state.add_input(checkpoint_id, self._labels[channel], [buffer])

    def complete_input(self, checkpoint_id: int) -> None:
        """Every channel has had its barrier."""
        self._state.finish_input(checkpoint_id)

    def abort(self, checkpoint_id: int, reason: str) -> None:
        """Collect nothing more for a checkpoint; its barriers stay where they are."""
        self._unsettled.pop(checkpoint_id, None)
        self._cancel_timer(checkpoint_id)
        self._state.abort(checkpoint_id, reason)
        for partition in self._partitions:
            partition.abort_barrier(checkpoint_id)

    def close(self) -> None:
        """Collect nothing any more; idempotent."""
        for checkpoint_id in list(self._timers):
            self._cancel_timer(checkpoint_id)
        self._unsettled.clear()
        self._state.close()

    def _add_unconsumed(self, checkpoint_id: int) -> None:
        if self._reader is not None:
            for channel, label in enumerate(self._labels):
                if self._slices is not None:
                    self._state.add_input(checkpoint_id, label, self._slices.rest_of(channel))
                self._state.add_input(checkpoint_id, label, self._reader.unconsumed(channel))

    def _settled(self, checkpoint_id: int, number: int, overtaken: OvertakenData | None) -> None:
        """It is known what the barrier has overtaken in one partition, or that it never will be."""
        if checkpoint_id not in self._unsettled:
            _recycle(overtaken)
            return
        if overtaken is None:
            self._unsettled.pop(checkpoint_id)
            self._cancel_timer(checkpoint_id)
            self._state.abort(checkpoint_id, "its barrier was given up in an output")
            return
        for subpartition, buffers in enumerate(overtaken):
            self._state.add_output(checkpoint_id, (number, subpartition), buffers)
        self._unsettled[checkpoint_id] -= 1
        if not self._unsettled[checkpoint_id]:
            self._finish_output(checkpoint_id)

    def _finish_output(self, checkpoint_id: int) -> None:
        self._unsettled.pop(checkpoint_id, None)
        self._cancel_timer(checkpoint_id)
        self._state.finish_output(checkpoint_id)

    def _time_out(self, checkpoint_id: int) -> None:
        del self._timers[checkpoint_id]
        for partition in self._partitions:
            partition.time_out_barrier(checkpoint_id)

    def _cancel_timer(self, checkpoint_id: int) -> None:
        timer = self._timers.pop(checkpoint_id, None)
        if timer is not None:
            timer.cancel()


def _labels(reader: RecordReader) -> list[ChannelLabel]:
    """Return the gate of each channel that a reader numbers through, and its place there."""
    return [
        (number, channel)
        for number, gate in enumerate(reader.gate.gates)
        for channel in range(len(gate.channels))
    ]


def _settle(in_flight: InFlight, ended: ChannelState | FlinknetError) -> None:
    if isinstance(ended, ChannelState):
        in_flight.set_result(ended)
    else:
        in_flight.set_exception(ended)
        in_flight.exception()  # Who has given the checkpoint up does not ask.


def _recycle(overtaken: OvertakenData | None) -> None:
    for buffers in overtaken or ():
        for buffer in buffers:
            buffer.recycle()

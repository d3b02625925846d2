"""The channel state of a subtask in a checkpoint: the data that barriers overtake.

Theory of operation. An aligned checkpoint has no channel state. In every other checkpoint, the
subtask's barrier goes to all writers, and the data that it overtakes there is the state of the
outputs. It is known at once, unless the barrier waits in the queues because it may still be read in
time. Then it is known when every reader has read the barrier or the timeout has passed. The state
of the inputs begins with data that was read and not processed, namely the rest of a batch and the
partial records in the deserializers. Then follow the buffers that the barrier handler passes on,
until every channel has delivered its barrier.

``ChannelStateWriter`` collects both. The future that ``begin`` returns gets the state when both are
complete, or an error if they cannot be completed.

Watermarks and idle statuses are not stored when a barrier overtakes them. After a restore, event
time lags until the next watermark arrives, but it is never wrong.

Flink: SubtaskCheckpointCoordinatorImpl with ChannelStateWriterImpl, and the alignment timer of
registerAlignmentTimer.
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
    """The channels of one subtask, for its checkpoints."""

    def __init__(
        self,
        subtask: str,
        config: CheckpointingConfig,
        reader: RecordReader | None,
        writers: Sequence[RecordWriter],
        slices: RecordSlices | None = None,
    ) -> None:
        """``slices`` holds the records that were read and not processed, if batches are cut."""
        self._reader = reader
        self._slices = slices
        self._partitions = [writer.partition for writer in writers]
        self._state = ChannelStateWriter(subtask, config)
        self._labels = [] if reader is None else _labels(reader)
        self._unsettled: dict[int, int] = {}
        """By checkpoint, the number of partitions with overtaken data that is not known yet."""
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def begin(self, barrier: CheckpointBarrier) -> InFlight | None:
        """Write the barrier to all outputs and collect the data in flight.

        Returns None if the barrier's alignment rules out such data. Raises LocalProtocolError like
        ``broadcast_event``; nothing is collected then.
        """
        checkpoint_id, options = barrier.checkpoint_id, barrier.options
        # A finished output gets no barrier. Its end follows all its data and acts as a barrier for
        # its readers.
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
        # Every barrier may have settled within ``broadcast_barrier``.
        elif options.aligned_timeout_ms is not None and checkpoint_id in self._unsettled:
            # This is a timer of the event loop, not a mail. A subtask that waits for memory in the
            # middle of a batch must still let its barriers overtake the data. The clock may have
            # been set back since the barrier was created.
            age_ms = max(0, CLUSTER_CLOCK.now_ms() - barrier.timestamp_ms)
            self._timers[checkpoint_id] = asyncio.get_running_loop().call_later(
                max(0, options.aligned_timeout_ms - age_ms) / 1000, self._time_out, checkpoint_id
            )
        return in_flight

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """Add a buffer in flight; takes over its reference."""
        self._state.add_input(checkpoint_id, self._labels[channel], [buffer])

    def complete_input(self, checkpoint_id: int) -> None:
        """End the input side: every channel has delivered its barrier."""
        self._state.finish_input(checkpoint_id)

    def abort(self, checkpoint_id: int, reason: str) -> None:
        """Stop collecting for a checkpoint; its barriers stay where they are."""
        self._unsettled.pop(checkpoint_id, None)
        self._cancel_timer(checkpoint_id)
        self._state.abort(checkpoint_id, reason)
        for partition in self._partitions:
            partition.abort_barrier(checkpoint_id)

    def close(self) -> None:
        """Stop collecting for all checkpoints. Idempotent."""
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
        """Take the data overtaken in one partition; None if its barrier was given up there."""
        if checkpoint_id not in self._unsettled:  # The checkpoint was aborted meanwhile.
            _recycle(overtaken)
            return
        if overtaken is None:
            self._unsettled.pop(checkpoint_id)
            self._cancel_timer(checkpoint_id)
            self._state.abort(checkpoint_id, "its barrier was aborted in an output")
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
    """Return the gate and the channel within it, for each channel in the reader's numbering."""
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
        # Mark the error as retrieved: the caller may have given the checkpoint up.
        in_flight.exception()


def _recycle(overtaken: OvertakenData | None) -> None:
    for buffers in overtaken or ():
        for buffer in buffers:
            buffer.recycle()

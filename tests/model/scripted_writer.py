"""A producer of one channel that writes a script, and keeps the data that its barriers overtake."""

from __future__ import annotations

from functools import partial

from flinknet.buffer.buffer import Buffer
from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.partition.registry import PartitionRegistry
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.events import CancelCheckpointMarker
from tests.model.checkpoint_shape import CANCEL, DATA_OPERATIONS, OPTIONS, CheckpointShape
from tests.model.shape import BODIES, DATA, END, EVENT_TYPES, FLUSH, MORE_DATA, network_config


class ScriptedWriter:
    """A subtask that only writes to a result partition with one subpartition."""

    def __init__(
        self,
        shape: CheckpointShape,
        index: int,
        pool: NetworkBufferPool,
        registry: PartitionRegistry,
    ) -> None:
        self.shape = shape
        self.index = index
        self.script = shape.scripts[index]
        self.written = 0
        self.waiting: int | None = None
        """The checkpoint of the barrier that waits in the queue, and may time out there."""
        self.output_state: dict[int, tuple[int, ...] | None] = {}
        """The records that barriers overtook, by checkpoint; None for an aborted one."""
        self.partition = ResultPartition(f"p{index}", 1, pool, network_config(shape))
        self._builder: BufferBuilder = NO_BUILDER
        registry.register(self.partition)

    @property
    def done(self) -> bool:
        """Whether the script is written completely."""
        return self.written == len(self.script)

    def can_write(self) -> bool:
        """Return whether the next operation need not wait.

        Data that begins a buffer needs a buffer; the end of the partition waits for the
        acknowledgement of its data.
        """
        if self.done:
            return False
        operation = self.script[self.written]
        if operation == END:
            return self.partition.subpartitions[0].acknowledged
        begins = operation in DATA_OPERATIONS and (operation != MORE_DATA or self._builder.sealed)
        return not begins or self.partition.availability.available

    def write(self) -> None:
        """Write the next operation of the script."""
        operation, subpartition = self.script[self.written], self.partition.subpartitions[0]
        if operation in DATA_OPERATIONS:
            self._write_data(operation)
        elif operation == FLUSH:
            subpartition.flush()
        elif operation in OPTIONS:
            self._write_barrier()
        elif operation == CANCEL:
            number = self.shape.checkpoint(self.index, self.written)
            self.partition.broadcast_event(*CancelCheckpointMarker(number).event())
        else:
            subpartition.add_event(Buffer.event(EVENT_TYPES[operation], BODIES[operation]))
        self.written += 1

    def _write_data(self, operation: str) -> None:
        if operation != MORE_DATA or self._builder.sealed:
            opened = self.partition.request_builder(0)
            assert opened is not None
            self._builder = opened
        self._builder.resume()
        assert self._builder.append(memoryview(bytes([self.written]))) == 1
        if operation == DATA:
            self.partition.subpartitions[0].seal_open()

    def _write_barrier(self) -> None:
        barrier = self.shape.barrier(self.index, self.written)
        if barrier.options.is_timeoutable:
            self.waiting = barrier.checkpoint_id
        self.partition.broadcast_barrier(
            barrier, partial(self._on_overtaken, barrier.checkpoint_id)
        )

    def _on_overtaken(self, checkpoint_id: int, overtaken: list[list[Buffer]] | None) -> None:
        assert checkpoint_id not in self.output_state, "what was overtaken was handed out twice"
        if self.waiting == checkpoint_id:
            self.waiting = None
        if overtaken is None:
            self.output_state[checkpoint_id] = None
            return
        (buffers,) = overtaken
        self.output_state[checkpoint_id] = tuple(
            number for buffer in buffers for number in bytes(buffer.view())
        )
        for buffer in buffers:
            buffer.recycle()

    def time_out(self) -> None:
        """Let the alignment timeout of the waiting barrier pass."""
        assert self.waiting is not None
        self.partition.time_out_barrier(self.waiting)

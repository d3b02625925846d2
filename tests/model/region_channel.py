"""The channel between a source and its sink on one worker, made of real objects.

The source writes to a partition in the worker's network memory, and the sink reads a gate through a
barrier handler. A record is the byte of its number. Barriers are aligned or unaligned. The
channel's state in a checkpoint is the data that the barrier overtook, and the data that had arrived
at the gate. It must be exactly the records, in order, that the source had emitted and the sink had
not processed.
"""

from __future__ import annotations

from functools import partial

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.checkpoint.barrier_events import handle_event
from flinknet.checkpoint.barrier_handler import BarrierHandler
from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.config import NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import ClosedResourceError
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.events import (
    Alignment,
    CheckpointBarrier,
    CheckpointOptions,
    Event,
    decode_event,
)
from tests.model.checkpoint_sides import no_bytes
from tests.model.shape import SEGMENT_BYTES, BrokenInvariantError

HERE = "here"
SEGMENTS = 8
"""Enough for one record each of two attempts of both regions."""

CONFIG = NetworkConfig(
    segment_bytes=SEGMENT_BYTES,
    network_memory_bytes=SEGMENTS * SEGMENT_BYTES,
    buffers_per_channel=1,
    floating_buffers_per_gate=0,
)


class NetworkMemory:
    """Pool and registry that the channels of a worker share."""

    def __init__(self) -> None:
        self.pool = NetworkBufferPool(SEGMENTS, SEGMENT_BYTES)
        self.registry = PartitionRegistry(10.0)

    def scrub(self) -> None:
        """Blank free segments, because their content must not distinguish states."""
        for segment in self.pool._free:
            segment.writer()(bytes(SEGMENT_BYTES))
            # rewind the stream: its position is part of the state
            segment.writer()

    @property
    def is_unused(self) -> bool:
        """Whether every segment and partition has been released."""
        statistics = self.pool.statistics()
        return (
            statistics.free == statistics.total
            and not statistics.local_pools
            and not self.registry.partitions()
        )


class RegionChannel:
    """A channel with a sink that continues behind ``position`` records."""

    def __init__(self, name: str, memory: NetworkMemory, position: int, *, unaligned: bool) -> None:
        self.written = self.read_up_to = position
        self._alignment = Alignment.UNALIGNED if unaligned else Alignment.ALIGNED
        self._overtaken: dict[int, bytes] = {}
        self._arrived: dict[int, bytes] = {}
        self._taken: dict[int, int] = {}
        self._emitted: dict[int, int] = {}
        self._complete: list[int] = []
        self._partition = ResultPartition(name, 1, memory.pool, CONFIG)
        memory.registry.register(self._partition)
        self._gate = InputGate(name, [PartitionLocation(HERE, name, 0)], HERE, memory.pool, CONFIG)
        self._gate.setup(partial(self._request, memory.registry))
        self._handler = BarrierHandler(self._gate, self, no_bytes)

    def _request(self, registry: PartitionRegistry) -> None:
        (channel,) = self._gate.local_channels
        wire_id = wire_partition_id(channel.location.partition_id)
        registry.request(wire_id, 0, channel, 0.0)

    # -- the source's end

    def write_record(self) -> None:
        """Emit the next record in a buffer of its own, or drop it if the sink is gone."""
        self.written += 1
        if self._partition.subpartitions[0].released:
            return
        builder = self._partition.request_builder(0)
        assert builder is not None, "there is memory for all"
        builder.resume()
        assert builder.append(memoryview(bytes([self.written]))) == 1
        self._partition.subpartitions[0].seal_open()

    def write_barrier(self, checkpoint_id: int) -> None:
        """Emit a barrier; an unaligned one overtakes the data in front of it."""
        self._emitted[checkpoint_id] = self.written
        options = CheckpointOptions(alignment=self._alignment)
        self._partition.broadcast_barrier(
            CheckpointBarrier(checkpoint_id, 0, options), partial(self._overtake, checkpoint_id)
        )

    def _overtake(self, checkpoint_id: int, overtaken: list[list[Buffer]] | None) -> None:
        assert overtaken is not None, "no barrier waits in the queue"
        (buffers,) = overtaken
        self._overtaken[checkpoint_id] = b"".join(bytes(buffer.view()) for buffer in buffers)
        for buffer in buffers:
            buffer.recycle()

    def write_end(self) -> None:
        """Emit the end of the data."""
        self._partition.notify_end_of_data()

    def close_source(self) -> None:
        """Close the source's end, which fails the channel unless the sink has read everything."""
        self._partition.fail(ClosedResourceError("the source is gone"))
        self._partition.release()

    # -- the sink's end

    @property
    def has_input(self) -> bool:
        """Whether the sink has something to read."""
        return self._gate.availability.available and not self._gate.finished

    def read(self) -> list[str | int]:
        """Read one buffer, and return its results.

        A result is a record, the number of a completed checkpoint, or the end of the channel.
        """
        polled = self._gate.poll()
        if polled is None:
            return []
        _, buffer = polled
        content, data_type = bytes(buffer.view()), buffer.data_type
        buffer.recycle()
        if data_type.is_buffer:
            self._process(content)
            return ["record"]
        handle_event(self._handler, 0, decode_event(Event(data_type, content)), 0)
        if data_type is DataType.END_OF_DATA:
            self._gate.acknowledge(0)
            self._partition.finish()
        complete, self._complete = self._complete, []
        return [*complete, *(["end"] if data_type is DataType.END_OF_PARTITION else [])]

    def _process(self, content: bytes) -> None:
        if content != bytes([self.read_up_to + 1]):
            raise BrokenInvariantError(f"{content!r} comes behind record {self.read_up_to}")
        self.read_up_to += 1

    def has_taken(self, checkpoint_id: int) -> bool:
        """Return whether the barrier has come, and not the end of the channel in its place."""
        return checkpoint_id in self._taken and checkpoint_id in self._emitted

    def stored(self, checkpoint_id: int) -> int:
        """Return the position of a checkpoint: the sink's records plus those in flight."""
        taken = self._taken.pop(checkpoint_id)
        in_flight = self._arrived.pop(checkpoint_id) + self._overtaken.pop(checkpoint_id, b"")
        emitted = self._emitted.pop(checkpoint_id)
        if in_flight != bytes(range(taken + 1, emitted + 1)):
            raise BrokenInvariantError(
                f"checkpoint {checkpoint_id} has {in_flight!r} between {taken} and {emitted}"
            )
        return taken + len(in_flight)

    def close_sink(self) -> None:
        """Close the sink's end."""
        self._gate.release()

    # -- the calls of the barrier handler

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Note the sink's position as the state of a checkpoint."""
        self._taken[barrier.checkpoint_id] = self.read_up_to
        self._arrived[barrier.checkpoint_id] = b""

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """Note a buffer as in flight."""
        self._arrived[checkpoint_id] += bytes(buffer.view())
        buffer.recycle()

    def complete(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """Keep the number for the result of ``read``."""
        self._complete.append(checkpoint_id)

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Fail: this world aborts no checkpoint."""
        raise BrokenInvariantError(f"checkpoint {checkpoint_id} is aborted: {reason}")

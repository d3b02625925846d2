"""The world that is explored: real producer, connections and consumer, and every step they can
take.

Nothing here imitates flinknet. A world holds a result partition, two joined connections and an
input gate, all real; a *step* is one call into them. What the world adds is the network (two
queues of chunks), a scripted producer per channel, an operator that processes one buffer at a time
and aligns barriers, and the oracle: what was written on a channel must come out of it once and in
order.

A world can be pickled, so that the explorer can return to any state.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import msgpack

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import NetworkConfig
from flinknet.connection.connection import Connection
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.partition.registry import PartitionRegistry
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.messages import MessageType

SEGMENT_BYTES = 64

DATA = "d"
OPEN_DATA = "o"
FLUSH = "f"
EVENT = "e"
BARRIER = "B"
END = "E"

DATA_TYPES = (DataType.DATA_BUFFER, DataType.DATA_BUFFER_WITH_CLEAR_END)
EVENT_TYPES = {
    EVENT: DataType.EVENT_BUFFER,
    BARRIER: DataType.ALIGNED_CHECKPOINT_BARRIER,
    END: DataType.END_OF_PARTITION,
}


@dataclass(frozen=True)
class Shape:
    """What to explore: a script per channel, buffers, and which channel the consumer may cancel."""

    scripts: tuple[str, ...]
    exclusive: int
    floating: int
    cancel: int | None = None


class Step(NamedTuple):
    """One thing that can happen next."""

    name: str
    channel: int = -1


class BrokenInvariantError(AssertionError):
    """The world did what must never happen."""


class World:
    """One producer worker, one consumer worker, one connection between them."""

    def __init__(self, shape: Shape) -> None:
        channels = len(shape.scripts)
        self.shape = shape
        self.config = NetworkConfig(
            segment_bytes=SEGMENT_BYTES,
            network_memory_bytes=SEGMENT_BYTES * 64,
            buffers_per_channel=shape.exclusive,
            floating_buffers_per_gate=shape.floating,
            outbox_bytes_max=SEGMENT_BYTES,
            receive_buffer_bytes=4096,
        )
        self.producer_pool = NetworkBufferPool(2 * channels + 2, SEGMENT_BYTES)
        consumer_segments = channels * shape.exclusive + shape.floating
        self.consumer_pool = NetworkBufferPool(consumer_segments, SEGMENT_BYTES)
        registry = PartitionRegistry(10.0)
        self.partition = ResultPartition("p", channels, self.producer_pool, self.config)
        registry.register(self.partition)
        self.producer = Connection("consumer", registry, self.config, self.on_output)
        self.consumer = Connection("producer", PartitionRegistry(10.0), self.config, self.on_output)
        locations = [PartitionLocation("producer:1", "p", index) for index in range(channels)]
        self.gate = InputGate("g", locations, "consumer:1", self.consumer_pool, self.config)
        self.to_consumer: deque[bytes] = deque()
        self.to_producer: deque[bytes] = deque()
        self.written = [0] * channels
        self.processed = [0] * channels
        self.aligned: set[int] = set()
        self.ended: set[int] = set()
        self.cancelled: set[int] = set()
        self.operator: tuple[int, Buffer] | None = None
        self.gate.setup(self.request_partitions)

    def on_output(self) -> None:
        """The explorer looks at ``has_output`` itself."""

    def request_partitions(self) -> None:
        """Every channel asks for its subpartition."""
        for channel in self.gate.remote_channels:
            channel.request(self.consumer)

    # -- what can happen --------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        """Return every step that is possible now."""
        steps = [
            Step("write", index)
            for index, script in enumerate(self.shape.scripts)
            if self.written[index] < len(script) and self.can_write(script[self.written[index]])
        ]
        if self.producer.has_output:
            steps.append(Step("producer sends"))
        if self.consumer.has_output:
            steps.append(Step("consumer sends"))
        if self.to_consumer:
            steps.append(Step("consumer receives"))
        if self.to_producer:
            steps.append(Step("producer receives"))
        if self.operator is not None:
            steps.append(Step("release"))
        elif self.gate.availability.available and not self.gate.finished:
            steps.append(Step("poll"))
        cancel = self.shape.cancel
        if cancel is not None and cancel not in self.cancelled | self.ended:
            steps.append(Step("cancel", cancel))
        return steps

    def can_write(self, operation: str) -> bool:
        """Data needs a buffer at the producer; nothing else does."""
        return operation not in (DATA, OPEN_DATA) or self.partition.availability.available

    def take(self, step: Step) -> None:
        """Do one step and check every invariant."""
        match step.name:
            case "write":
                self.write(step.channel)
            case "producer sends":
                self.to_consumer.append(b"".join(self.producer.next_frames(1)))
                self.producer.frames_written()
            case "consumer sends":
                self.to_producer.append(b"".join(self.consumer.next_frames(1)))
                self.consumer.frames_written()
            case "consumer receives":
                self.deliver(self.consumer, self.to_consumer.popleft())
            case "producer receives":
                self.deliver(self.producer, self.to_producer.popleft())
            case "poll":
                self.poll()
            case "release":
                self.release()
            case "cancel":
                self.cancelled.add(step.channel)
                self.aligned.discard(step.channel)
                self.gate.channels[step.channel].release()
                self.resume_if_aligned()
        self.check()

    # -- producer ---------------------------------------------------------------------------------

    def write(self, index: int) -> None:
        """Do the next operation of a channel's script."""
        operation = self.shape.scripts[index][self.written[index]]
        subpartition = self.partition.subpartitions[index]
        if operation in (DATA, OPEN_DATA):
            builder = self.partition.request_builder(index)
            assert builder is not None
            if not subpartition.released:
                builder.append(memoryview(bytes([self.written[index]])))
                if operation == DATA:
                    subpartition.seal_open()
        elif operation == FLUSH:
            subpartition.flush()
        else:
            payload = bytes([self.written[index]])
            subpartition.add_event(Buffer.event(EVENT_TYPES[operation], payload))
        self.written[index] += 1

    # -- network ----------------------------------------------------------------------------------

    def deliver(self, connection: Connection, chunk: bytes) -> None:
        """Hand a chunk to one end."""
        memory = connection.get_buffer()
        memory[: len(chunk)] = chunk
        connection.received(len(chunk), 0.0)

    # -- consumer ---------------------------------------------------------------------------------

    def poll(self) -> None:
        """The operator takes one buffer; events are handled at once, data is kept for a while."""
        polled = self.gate.poll()
        if polled is None:
            return
        index, buffer = polled
        self.judge(index, bytes(buffer.view()), buffer.data_type)
        if buffer.data_type.is_buffer:
            self.operator = polled
            return
        buffer.recycle()
        if buffer.data_type is DataType.ALIGNED_CHECKPOINT_BARRIER:
            self.aligned.add(index)
        elif buffer.data_type is DataType.END_OF_PARTITION:
            self.ended.add(index)
        self.resume_if_aligned()

    def release(self) -> None:
        """The operator has processed its buffer."""
        assert self.operator is not None
        _, buffer = self.operator
        self.operator = None
        buffer.recycle()

    def resume_if_aligned(self) -> None:
        """The barrier is here on every live channel: all go on."""
        live = set(range(len(self.processed))) - self.ended - self.cancelled
        if self.aligned and self.aligned >= live:
            aligned, self.aligned = sorted(self.aligned), set()
            for index in aligned:
                self.gate.channels[index].resume_consumption()

    def judge(self, index: int, payload: bytes, data_type: DataType) -> None:
        """What comes out of a channel is what was written there next."""
        script = self.shape.scripts[index]
        if index in self.aligned:
            raise BrokenInvariantError(
                f"channel {index} delivered {data_type.name} behind its own barrier"
            )
        while self.processed[index] < len(script) and script[self.processed[index]] == FLUSH:
            self.processed[index] += 1
        expected = self.processed[index]
        if payload != bytes([expected]):
            raise BrokenInvariantError(
                f"channel {index} delivered {payload!r}, expected number {expected}"
            )
        self.processed[index] += 1

    # -- the oracle -------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if an invariant is broken."""
        self.producer_pool.check_invariants()
        self.consumer_pool.check_invariants()
        self.partition.check_invariants()
        self.producer.check_invariants()
        self.consumer.check_invariants()
        self.gate.check_invariants()
        self.check_backlog()
        self.check_credit()

    def check_backlog(self) -> None:
        """Told backlog is the data that can be polled, counted here from what was written (C10)."""
        for index, subpartition in enumerate(self.partition.subpartitions):
            statistics = subpartition.statistics()
            if statistics.blocked or statistics.released:
                continue
            sent = statistics.buffers_out
            script = self.shape.scripts[index][: self.written[index]]
            left = [operation for operation in script if operation != FLUSH][sent:]
            data = sum(operation in (DATA, OPEN_DATA) for operation in left)
            promised = script.rstrip(OPEN_DATA) != script and left[-1:] == [OPEN_DATA]
            if statistics.backlog != data - promised:
                raise BrokenInvariantError(
                    f"subpartition {index} tells backlog {statistics.backlog}, {data} are queued"
                )

    def check_credit(self) -> None:
        """Free buffers == unannounced + on the way + at the producer + data on the way (I4)."""
        if any(self.to_producer) or self.consumer.has_output:
            return  # what is on the way to the producer is counted when it is there
        readers = {reader.channel: reader for reader in self.producer.statistics().readers}
        for index, channel in enumerate(self.gate.channels):
            statistics = channel.statistics()
            if statistics.released or index not in readers or readers[index].done:
                continue
            in_flight = sum(data_on_the_way(chunk, index) for chunk in self.to_consumer)
            free = statistics.exclusive_free + statistics.floating_free
            promised = readers[index].credit + in_flight + statistics.unannounced_credit
            blocked = self.partition.subpartitions[index].statistics().blocked
            window = self.shape.exclusive == 0 and blocked
            if promised != free and not window:
                raise BrokenInvariantError(
                    f"channel {index}: {promised} credits for {free} free buffers"
                )

    @property
    def complete(self) -> bool:
        """Whether everything was written and everything that was not cancelled delivered."""
        return all(
            self.written[index] == len(script) and (index in self.ended or index in self.cancelled)
            for index, script in enumerate(self.shape.scripts)
        )

    def check_end(self) -> None:
        """Nothing can happen any more: it must be because all is done and everything is back."""
        if not self.complete:
            raise BrokenInvariantError(f"deadlock: {self.describe()}")
        if len(self.cancelled) == 0 and not self.gate.finished:
            raise BrokenInvariantError("every channel ended but the gate did not finish")
        self.partition.release()
        self.gate.release()
        for name, pool in (("producer", self.producer_pool), ("consumer", self.consumer_pool)):
            statistics = pool.statistics()
            if statistics.free != statistics.total or statistics.exclusive:
                raise BrokenInvariantError(f"the {name} lost buffers: {statistics}")

    def describe(self) -> str:
        """Return what an engineer wants to see of a stuck world."""
        return "\n".join(
            [
                f"written {self.written}, processed {self.processed}, aligned {self.aligned}",
                *(str(part.statistics()) for part in self.partition.subpartitions),
                *(str(reader) for reader in self.producer.statistics().readers),
                *(str(channel.statistics()) for channel in self.gate.channels),
            ]
        )

    def scrub(self) -> None:
        """Zero the memory of free segments, so that states that differ only there are the same."""
        pools = [self.producer_pool, self.consumer_pool]
        free = [segment for pool in pools for segment in pool._free]
        free += self.partition._pool._idle
        free += self.gate._floating_pool._idle
        for channel in self.gate.remote_channels:
            free += channel.manager._exclusive
            free += channel.manager._floating
        for segment in free:
            segment.writer()(bytes(SEGMENT_BYTES))
            segment.writer()


def data_on_the_way(chunk: bytes, channel: int) -> int:
    """Count the data frames of a channel in a chunk, read with a plain unpacker."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(chunk)
    return sum(
        isinstance(message, list)
        and message[0] == MessageType.BUFFER_RESPONSE
        and message[1] == channel
        and message[4] in DATA_TYPES
        for message in unpacker
    )

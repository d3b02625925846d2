"""Two workers in one process, with their connections joined without sockets.

Only the socket is replaced. The output of one connection is fed to the other, in one piece or in
many, and buffers are recycled as if a socket had taken them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from flinknet.buffer.buffer import DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import NetworkConfig
from flinknet.connection.link import Link
from flinknet.connection.peer_limits import UnmetRequestPacer
from flinknet.connection.session import Session
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.partition.registry import PartitionRegistry
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.messages import MessageType
from tests.unit.arrangements import assert_everything_returned, content_of, make_config

REQUEST_TIMEOUT_S = 10.0


class Worker:
    """One side: its memory, partitions, gates, session and end of the link."""

    def __init__(
        self,
        address: str,
        peer: str,
        config: NetworkConfig,
        on_output: Callable[[], None] = lambda: None,
        unmet_requests: UnmetRequestPacer | None = None,
    ) -> None:
        self.address = address
        self.config = config
        self.pool = NetworkBufferPool(config.segments, config.segment_bytes)
        self.registry = PartitionRegistry(REQUEST_TIMEOUT_S)
        checksums = config.checksums == "on"
        self.session = Session(
            peer,
            self.registry,
            config,
            unmet_requests=unmet_requests,
            checksums=checksums,
        )
        self.link = Link(self.session, config, on_output)
        self.now = 0.0

    def make_partition(self, partition_id: str = "p", subpartitions: int = 1) -> ResultPartition:
        """Make and register a partition."""
        partition = ResultPartition(partition_id, subpartitions, self.pool, self.config)
        self.registry.register(partition)
        return partition

    def make_gate(self, *locations: PartitionLocation) -> InputGate:
        """Make a gate that requests its partitions over the connection, in order."""
        gate = InputGate("gate", locations, self.address, self.pool, self.config)

        def request() -> None:
            for channel in gate.remote_channels:
                channel.request(self.session)

        gate.setup(request)
        return gate

    def receive(self, data: bytes, piece: int | None = None) -> None:
        """Feed received bytes to the link, all at once or in pieces."""
        piece = len(data) if piece is None else piece
        for start in range(0, len(data), piece or 1):
            part = data[start : start + piece]
            while part:
                memory = self.link.get_buffer()
                size = min(len(memory), len(part))
                memory[:size] = part[:size]
                memory.release()
                self.link.received(size, self.now)
                while self.link.has_more:
                    self.link.received(0, self.now)
                part = part[size:]
        self.link.check_invariants()

    def send(self, budget_bytes: int = 2**20) -> bytes:
        """Return the bytes of one write, as if the socket had taken them."""
        data = b"".join(self.link.next_frames(budget_bytes))
        self.link.frames_written()
        self.link.check_invariants()
        return data

    def lose(self, cause: BaseException) -> None:
        """Lose the socket."""
        self.link.lost(cause)
        self.link.check_invariants()

    def assert_nothing_is_left(self) -> None:
        """Check that every buffer is back and that the connection has kept nothing."""
        statistics = self.link.statistics()
        assert (statistics.channels, statistics.readers, statistics.buffers_in_flight) == (0, (), 0)
        assert self.registry.waiting == 0
        assert_everything_returned(self.pool)


class Joined:
    """A producer and a consumer. Only the names distinguish the two workers."""

    def __init__(self, *, on_output: Callable[[], None] = lambda: None, **options: Any) -> None:
        config = make_config(**{"receive_buffer_bytes": 4096, **options})
        self.producer = Worker("127.0.0.1:1", "the consumer", config, on_output)
        self.consumer = Worker("127.0.0.1:2", "the producer", config, on_output)
        self.to_producer = bytearray()
        self.to_consumer = bytearray()
        self.gates: list[InputGate] = []
        """Gates to be released by ``close``."""

    def produced(self, subpartition: int = 0, partition_id: str = "p") -> PartitionLocation:
        """Return the location of a subpartition of the producer."""
        return PartitionLocation(self.producer.address, partition_id, subpartition)

    def pump(self, piece: int | None = None, budget_bytes: int = 2**20) -> None:
        """Carry bytes in both directions until neither side has output."""
        while self.producer.link.has_output or self.consumer.link.has_output:
            data = self.consumer.send(budget_bytes)
            self.to_producer += data
            self.producer.receive(data, piece)
            data = self.producer.send(budget_bytes)
            self.to_consumer += data
            self.consumer.receive(data, piece)

    def close(self) -> None:
        """Cut the connection, release everything, and check that every buffer comes back."""
        for gate in self.gates:
            gate.release()
        for worker in (self.producer, self.consumer):
            worker.lose(ConnectionError("the test is over"))
            for partition in worker.registry.partitions():
                partition.release()
        for worker in (self.producer, self.consumer):
            worker.assert_nothing_is_left()


def messages(data: bytes | bytearray) -> list[tuple[Any, ...]]:
    """Read a stream with a plain unpacker; a buffer gets the form that ``buffer_event`` makes."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    found = []
    for message in unpacker:
        kind, *fields = message
        if kind == MessageType.BUFFER_RESPONSE:
            head, cut = fields[:3], fields[4:]
            fields = [*head, list(DataType)[fields[3]], next(unpacker), *(cut if any(cut) else ())]
        found.append((MessageType(kind), *fields))
    assert unpacker.tell() == len(data)
    return found


def kinds(data: bytes | bytearray) -> list[MessageType]:
    """Return the types of the messages in a stream."""
    return [message[0] for message in messages(data)]


def poll(gate: InputGate) -> tuple[int, bytes | DataType] | None:
    """Poll and recycle the next buffer of a gate; return its channel index and its content or
    type."""
    polled = gate.poll()
    if polled is None:
        return None
    index, buffer = polled
    what = content_of(buffer) if buffer.data_type.is_buffer else buffer.data_type
    buffer.recycle()
    return index, what


def poll_all(gate: InputGate) -> list[tuple[int, bytes | DataType]]:
    """Poll and recycle all buffers that a gate has now."""
    found = []
    while (polled := poll(gate)) is not None:
        found.append(polled)
    return found

"""Hosts of the producer and the consumer, with the same interface for every kind of channel.

*local*: one environment has both sides. *memory*: two workers exchange bytes without a socket.
*tcp*: two environments over loopback; *tls*: the same with certificates. Memory and tcp run with
credit, *without credit*, and with credit and *checksums*.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from flinknet.buffer.availability import Availability, WaitReason
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import BufferTimeout, NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import RemoteProtocolError, RemoteTransportError
from flinknet.net.flusher import EventLoopFlusher
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.partitioner import Partitioner
from flinknet.records.reader import EventHandler, RecordReader
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.records.serialization.spanning_record import ReassemblyMemory
from flinknet.records.writer import RecordWriter
from tests.certificates import an_authority
from tests.unit.connection.joined import Worker

KINDS = (
    "local",
    "memory",
    "tcp",
    "memory with checksums",
    "tcp with checksums",
    "memory without credit",
    "tcp without credit",
    "tls",
)

WHERE_BUFFERS_ARE_ALL = tuple(kind for kind in KINDS if kind != "tcp without credit")
"""Kinds in which only the buffers of both sides hold data.

TCP without credit is no such kind: the system's socket buffers hold data there, too.
"""

WITH_CREDIT = tuple(kind for kind in KINDS if not kind.endswith("without credit"))

_PIPE_BYTES = 8192
"""Capacity of the link between two memory hosts while the receiver does not read."""


class Host(Protocol):
    """The interface of a worker to its tasks; NetworkEnvironment is the real implementation."""

    config: NetworkConfig
    network_pool: NetworkBufferPool

    @property
    def address(self) -> str: ...

    def create_result_partition(
        self, partition_id: str, *, subpartitions: int
    ) -> ResultPartition: ...

    def create_record_writer(
        self,
        partition: ResultPartition,
        partitioner: Partitioner | None = None,
        *,
        buffer_timeout_ms: BufferTimeout | None = None,
    ) -> RecordWriter: ...

    def create_input_gate(
        self, locations: Sequence[PartitionLocation], *, name: str = "gate"
    ) -> InputGate: ...

    def create_record_reader(
        self, gate: InputGate, *, event_handler: EventHandler | None = None
    ) -> RecordReader: ...


class MemoryHost:
    """A worker of the sans-IO core; its connection's output is carried once per loop turn."""

    def __init__(self, address: str, config: NetworkConfig) -> None:
        self.loop = asyncio.get_running_loop()
        self.config = config
        self.worker = Worker(address, "the other", config, self._on_output)
        self.network_pool = self.worker.pool
        self.address = address
        self.peer: MemoryHost
        self.sends_at_once = False
        self._flusher = EventLoopFlusher(self.loop, config, self)
        self._carrying = False
        self._incoming = bytearray()

    def _on_output(self) -> None:
        if not self._carrying:
            self._carrying = True
            self.loop.call_soon(self._carry)

    def _carry(self) -> None:
        self._carrying = False
        link, peer = self.worker.link, self.peer
        if link.can_resume:
            link.resume(self.loop.time())
            self._read()
            # The peer may have waited because this side's pipe was full.
            peer._on_output()
        if link.has_output and len(peer._incoming) < _PIPE_BYTES:
            peer._incoming += self.worker.send(self.config.outbox_bytes_max)
            peer._read()
            if link.has_output:
                self._on_output()

    def _read(self) -> None:
        """Receive the sent bytes in pieces of 1,000 while the connection reads.

        If the peer breaks the protocol, both sides lose the connection.
        """
        link = self.worker.link
        while self._incoming and not (link.stalled or link.session.failure is not None):
            piece = bytes(self._incoming[:1000])
            del self._incoming[:1000]
            try:
                self.worker.receive(piece)
            except RemoteProtocolError as violation:
                self.worker.lose(violation)
                self.peer.worker.lose(RemoteTransportError("the consumer closed the connection"))

    async def wait(self, availability: Availability, reason: WaitReason) -> None:
        """Suspend until the availability is complete."""
        event = asyncio.Event()
        availability.subscribe(event.set)
        try:
            await event.wait()
        finally:
            availability.unsubscribe(event.set)

    def create_result_partition(self, partition_id: str, *, subpartitions: int) -> ResultPartition:
        return self.worker.make_partition(partition_id, subpartitions)

    def create_record_writer(
        self,
        partition: ResultPartition,
        partitioner: Partitioner | None = None,
        *,
        buffer_timeout_ms: BufferTimeout | None = None,
    ) -> RecordWriter:
        default = self.config.buffer_timeout_ms
        writer = RecordWriter(
            partition,
            partitioner,
            wait=self.wait,
            flusher=self._flusher,
            buffer_timeout_ms=default if buffer_timeout_ms is None else buffer_timeout_ms,
            record_bytes_max=self.config.record_bytes_max,
            record_elements_max=self.config.record_elements_max,
        )
        partition.when_released(lambda _: self._flusher.forget(writer))
        return writer

    def create_input_gate(
        self, locations: Sequence[PartitionLocation], *, name: str = "gate"
    ) -> InputGate:
        return self.worker.make_gate(*locations)

    def create_record_reader(
        self, gate: InputGate, *, event_handler: EventHandler | None = None
    ) -> RecordReader:
        return RecordReader(
            gate,
            wait=self.wait,
            unpacker=RecordUnpacker.of(self.config),
            memory=ReassemblyMemory.of(self.config),
            event_handler=event_handler,
        )


class Exchange:
    """A producing and a consuming host, and shortcuts for tests."""

    def __init__(self, kind: str, producer: Host, consumer: Host) -> None:
        self.kind = kind
        self.producer = producer
        self.consumer = consumer

    def writer(
        self,
        name: str = "p",
        *,
        subpartitions: int = 1,
        partitioner: Partitioner | None = None,
        buffer_timeout_ms: BufferTimeout | None = None,
        back: bool = False,
    ) -> RecordWriter:
        """Make a partition and its writer; with ``back``, on the consumer's host."""
        host = self.consumer if back else self.producer
        partition = host.create_result_partition(name, subpartitions=subpartitions)
        return host.create_record_writer(
            partition, partitioner, buffer_timeout_ms=buffer_timeout_ms
        )

    def reader(
        self,
        *subpartitions: int,
        name: str = "p",
        back: bool = False,
        event_handler: EventHandler | None = None,
    ) -> RecordReader:
        """Make a gate over subpartitions (0 by default) and its reader."""
        source, host = self.producer, self.consumer
        if back:
            source, host = host, source
        locations = [
            PartitionLocation(source.address, name, index) for index in subpartitions or (0,)
        ]
        gate = host.create_input_gate(locations, name=f"gate of {name}")
        return host.create_record_reader(gate, event_handler=event_handler)


@asynccontextmanager
async def open_exchange(kind: str, **options: Any) -> AsyncIterator[Exchange]:
    """Open a small exchange of a kind, and check on exit that every buffer is back."""
    config = NetworkConfig(
        **{
            "segment_bytes": 1024,
            "network_memory_bytes": 128 * 1024,
            "flow_control": "off" if kind.endswith("without credit") else "credit",
            "checksums": "on" if kind.endswith("with checksums") else "off",
            **options,
        }
    )
    if kind.startswith("memory"):
        one, other = MemoryHost("127.0.0.1:1", config), MemoryHost("127.0.0.1:2", config)
        one.peer, other.peer = other, one
        yield Exchange(kind, one, other)
        for worker in (one.worker, other.worker):
            worker.lose(ConnectionError("the exchange is closed"))
            for partition in worker.registry.partitions():
                partition.release()
        hosts: list[Host] = [one, other]
    elif kind == "local":
        async with NetworkEnvironment(config=config) as environment:
            yield Exchange(kind, environment, environment)
        hosts = [environment]
    else:
        tls = an_authority().tls("worker-*") if kind == "tls" else None
        async with (
            NetworkEnvironment(config=config, tls=tls) as producer,
            NetworkEnvironment(config=config, tls=tls) as consumer,
        ):
            yield Exchange(kind, producer, consumer)
        hosts = [producer, consumer]
    for host in hosts:
        statistics = host.network_pool.statistics()
        assert (statistics.required, statistics.exclusive, statistics.local_pools) == (0, 0, 0)

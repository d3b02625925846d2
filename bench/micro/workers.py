"""Workers in one process, made of flinknet's own objects, without the socket.

This module takes the place of the socket: it copies the bytes that one connection sends into the
memory that the other one offers, and the buffers go back. It takes the place of the event loop,
too, with a plain loop over coroutines, each of which runs until it has to wait.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from flinknet import NetworkConfig, Partitioner, PartitionLocation, RecordReader, RecordWriter
from flinknet.buffer.availability import Availability, WaitReason
from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.view import SubpartitionView
from flinknet.connection.link import Link
from flinknet.connection.session import Session
from flinknet.consumer.input_gate import InputGate
from flinknet.partition.registry import PartitionRegistry
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.cooperative_budget import yield_to_loop
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.records.serialization.spanning_record import ReassemblyMemory

__all__ = ["PARTITION", "Sink", "Worker", "carry", "finish", "make_writer", "run_together"]

PARTITION = "micro"


class Worker:
    """Memory, partitions, and one end of a connection."""

    def __init__(self, address: str, config: NetworkConfig) -> None:
        self.address = address
        self.config = config
        self.pool = NetworkBufferPool(config.segments, config.segment_bytes)
        self.registry = PartitionRegistry(config.rendezvous_timeout_ms / 1000)
        self.session = Session("the other one", self.registry, config)
        self.link = Link(self.session, config, lambda: None)

    def make_partition(self, subpartitions: int = 1) -> ResultPartition:
        """Make and register the partition."""
        partition = ResultPartition(PARTITION, subpartitions, self.pool, self.config)
        self.registry.register(partition)
        return partition

    def make_gate(self, address: str, subpartitions: int = 1) -> InputGate:
        """Make a gate that requests the subpartitions over the connection."""
        locations = [
            PartitionLocation(address, PARTITION, subpartition)
            for subpartition in range(subpartitions)
        ]
        gate = InputGate("gate", locations, self.address, self.pool, self.config)

        def request() -> None:
            for channel in gate.remote_channels:
                channel.request(self.session)

        gate.setup(request)
        return gate

    def make_reader(self, gate: InputGate) -> RecordReader:
        """Make a reader, which waits by letting the other coroutines run."""
        return RecordReader(
            gate,
            wait=_let_others_run,
            unpacker=RecordUnpacker.of(self.config),
            memory=ReassemblyMemory.of(self.config),
        )

    def send(self) -> bytes:
        """Return the bytes of one write, as if a socket had taken them."""
        data = b"".join(self.link.next_frames(self.config.outbox_bytes_max))
        self.link.frames_written()
        return data

    def receive(self, data: bytes | memoryview) -> None:
        """Receive bytes, in pieces of the size that the connection has memory for."""
        link, rest = self.link, memoryview(data)
        while rest:
            memory = link.get_buffer()
            size = min(len(memory), len(rest))
            memory[:size] = rest[:size]
            link.received(size, 0.0)
            while link.has_more:
                link.received(0, 0.0)
            rest = rest[size:]


class Sink:
    """A consumer in the same worker that takes every buffer of a partition and recycles it."""

    def __init__(self, partition: ResultPartition) -> None:
        self.bytes_taken = 0
        self._views: list[SubpartitionView] = [
            partition.create_view(index, self) for index in range(len(partition.subpartitions))
        ]

    def notify_data_available(self) -> None:
        """Do nothing: ``drain`` runs whenever the writer waits."""

    def notify_barrier_queued(self) -> None:
        """Do nothing, because no workload has barriers."""

    def drain(self) -> None:
        """Take every buffer that is full, or has been flushed."""
        for view in self._views:
            while view.next_data_type() is not DataType.NONE:
                polled = view.poll()
                assert polled is not None
                self.take(polled.buffer)

    def take(self, buffer: Buffer) -> None:
        """Count the buffer and recycle it."""
        self.bytes_taken += buffer.size
        buffer.recycle()


class _NoFlusher:
    """A flusher for writers without a buffer timeout, which never request a flush."""

    def request_flush(self, writer: RecordWriter) -> None:
        raise AssertionError("a writer without a buffer timeout asked to be flushed")


def make_writer(
    partition: ResultPartition, partitioner: Partitioner, config: NetworkConfig
) -> RecordWriter:
    """Make a writer of full buffers, which waits by letting the other coroutines run."""
    return RecordWriter(
        partition,
        partitioner,
        wait=_let_others_run,
        flusher=_NoFlusher(),
        buffer_timeout_ms=-1,
        record_bytes_max=config.record_bytes_max,
        record_elements_max=config.record_elements_max,
    )


async def _let_others_run(availability: Availability, reason: WaitReason) -> None:
    await yield_to_loop()


def finish(coroutine: Coroutine[Any, Any, None], sink: Sink) -> None:
    """Run a coroutine to its end; whenever it waits, drain the sink."""
    try:
        while True:
            coroutine.send(None)
            sink.drain()
    except StopIteration:
        return


def run_together(tasks: Sequence[Coroutine[Any, Any, None]], left: Worker, right: Worker) -> None:
    """Run tasks in turn until all have ended, and transfer bytes both ways after each turn."""
    running = list(tasks)
    while running:
        for task in list(running):
            try:
                task.send(None)
            except StopIteration:
                running.remove(task)
        carry(left, right)
        carry(right, left)


def carry(source: Worker, target: Worker) -> None:
    """Transfer the output of one worker to another, up to the size of one write."""
    if source.link.has_output:
        target.receive(source.send())

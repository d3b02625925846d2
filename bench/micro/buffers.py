"""The cost of a buffer at either end of a connection, independent of its content."""

from __future__ import annotations

from bench.micro.workers import PARTITION, Worker
from bench.micro.workload import Workload
from flinknet import NetworkConfig
from flinknet.partition.registry import wire_partition_id
from flinknet.wire.codec import encode
from flinknet.wire.messages import MessageType

__all__ = ["make_buffers_in", "make_buffers_out"]

GROUP = 8
"""Number of buffers in one write, and in one message of credit."""

CHANNEL = 0
CONFIG = NetworkConfig(network_memory_bytes=4 << 20, buffers_per_channel=GROUP)


class Producer:
    """One end of a connection, with a partition; its reader gets credit for a group at a time."""

    def __init__(self, size: int) -> None:
        self.worker = Worker("127.0.0.1:1", CONFIG)
        self.partition = self.worker.make_partition()
        self._credit = encode(MessageType.ADD_CREDIT, CHANNEL, GROUP)
        self._content = memoryview(bytes(size))
        wire_id = wire_partition_id(PARTITION)
        self.worker.receive(encode(MessageType.PARTITION_REQUEST, CHANNEL, wire_id, 0, 0))

    def fill_group(self) -> None:
        """Receive credit and fill as many buffers."""
        self.worker.receive(self._credit)
        partition, content = self.partition, self._content
        for _ in range(GROUP):
            builder = partition.request_builder(0)
            assert builder is not None
            builder.append(content)
        partition.flush(0)


def make_buffers_out(size: int, operations: int) -> Workload:
    """Return the producer's workload: from opening a builder to writing and recycling a buffer.

    Each buffer is opened, filled, sealed and polled, gets its header, and is written and recycled.
    """
    groups = -(-operations // GROUP)
    producer = Producer(size)
    link = producer.worker.link

    def run() -> None:
        for _ in range(groups):
            producer.fill_group()
            link.next_frames(CONFIG.outbox_bytes_max)
            link.frames_written()

    def verify() -> bool:
        sent = producer.partition.statistics()
        return (sent.buffers_out, sent.bytes_out) == (groups * GROUP, groups * GROUP * size)

    return Workload(groups * GROUP, run, verify)


def make_buffers_in(size: int, operations: int) -> Workload:
    """Return the consumer's workload: from decoding a buffer to recycling it.

    Each buffer is decoded, copied into memory that is found for it, queued, polled from the gate
    and recycled. The workload includes the messages of credit.
    """
    groups = -(-operations // GROUP)
    worker = Worker("127.0.0.1:2", CONFIG)
    gate = worker.make_gate("127.0.0.1:1")
    worker.send()  # the request, which the producer has received already
    arriving = _sent(Producer(size), groups)
    link = worker.link
    taken: list[int] = []

    def run() -> None:
        for data in arriving:
            worker.receive(data)
            while (polled := gate.poll()) is not None:
                buffer = polled[1]
                taken.append(buffer.size)
                buffer.recycle()
            link.next_frames(CONFIG.outbox_bytes_max)
            link.frames_written()

    def verify() -> bool:
        return taken == [size] * (groups * GROUP)

    return Workload(groups * GROUP, run, verify)


def _sent(producer: Producer, groups: int) -> list[bytes]:
    """Return the bytes that a producer sends, group by group."""
    # The answer to the request comes first, and is dropped.
    producer.worker.send()
    sent = []
    for _ in range(groups):
        producer.fill_group()
        sent.append(producer.worker.send())
    return sent

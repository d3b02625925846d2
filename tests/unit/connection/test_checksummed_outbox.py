"""A connection with checksums: every bit of a conversation is flipped once, and none arrives."""

from __future__ import annotations

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import (
    CorruptedDataError,
    ErrorCode,
    RemoteProtocolError,
    RemoteTransportError,
)
from flinknet.wire.checksum import seal
from flinknet.wire.codec import encode_error
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.arrangements import make_config, put
from tests.unit.connection.joined import Worker, poll_all
from tests.unit.wire.received import Received, buffer_response, make_decoder

CONFIG = make_config(receive_buffer_bytes=4096, checksums="on")
RECORDS = [bytes([number, number]) for number in range(1, 4)]
LOSS = RemoteTransportError("the cable")
Steps = list[tuple[bytes, bytes]]
"""What the consumer sends in each step, and what the producer does."""


class Producer:
    """What the producing side does, step by step."""

    def __init__(self) -> None:
        self.worker = Worker("127.0.0.1:1", "the consumer", CONFIG, lambda: None)
        self.partition = self.worker.make_partition()

    def act(self, step: int) -> None:
        if step < len(RECORDS):
            put(self.partition, 0, RECORDS[step])
            self.partition.flush_all()
        elif step == len(RECORDS):
            self.partition.notify_end_of_data()
        elif step == len(RECORDS) + 2:
            self.partition.finish()

    def close(self, cause: Exception) -> None:
        self.worker.lose(cause)
        for partition in self.worker.registry.partitions():
            partition.release()
        self.worker.assert_nothing_is_left()


class Consumer:
    """What the consuming side does; ``taken`` is what its task has got."""

    def __init__(self) -> None:
        self.worker = Worker("127.0.0.1:2", "the producer", CONFIG, lambda: None)
        self.taken: list[bytes | DataType] = []
        self.gate = self.worker.make_gate(PartitionLocation("127.0.0.1:1", "p", 0))

    def act(self) -> None:
        for _, what in poll_all(self.gate):
            self.taken.append(what)
            if what is DataType.END_OF_DATA:
                self.gate.acknowledge(0)

    def close(self, cause: Exception) -> None:
        self.worker.lose(cause)
        if self.taken != TAKEN:
            with pytest.raises(type(cause)):
                poll_all(self.gate)
        self.gate.release()
        self.worker.assert_nothing_is_left()


def converse() -> tuple[Steps, list[bytes | DataType]]:
    """Return what either side sends in each step, and what the task gets."""
    producer, consumer = Producer(), Consumer()
    steps: Steps = []
    for step in range(len(RECORDS) + 5):
        to_producer = consumer.worker.send()
        producer.worker.receive(to_producer)
        producer.act(step)
        to_consumer = producer.worker.send()
        consumer.worker.receive(to_consumer)
        consumer.act()
        steps.append((to_producer, to_consumer))
    return steps, consumer.taken


STEPS, TAKEN = converse()


def flipped(bit: int, direction: int) -> Steps:
    """The conversation with one bit of one direction changed."""
    steps = list(STEPS)
    for number, step in enumerate(steps):
        data = bytearray(step[direction])
        if bit < 8 * len(data):
            data[bit // 8] ^= 1 << bit % 8
            steps[number] = (bytes(data), step[1]) if direction == 0 else (step[0], bytes(data))
            return steps
        bit -= 8 * len(data)
    raise AssertionError("there is no such bit")


def bits(direction: int) -> range:
    return range(8 * sum(len(step[direction]) for step in STEPS))


def test_the_conversation_is_a_whole_one() -> None:
    assert [*RECORDS, DataType.END_OF_DATA, DataType.END_OF_PARTITION] == TAKEN
    for direction in (0, 1):
        received = Received()
        make_decoder(received, checksums=True).feed(b"".join(step[direction] for step in STEPS))
        types = {event[0] for event in received.events}
        if direction:
            assert types == {MessageType.BUFFER_RESPONSE}
        else:
            assert {MessageType.PARTITION_REQUEST, MessageType.ADD_CREDIT} <= types


def test_no_flipped_bit_reaches_the_consumers_task() -> None:
    """What it gets is exact, as far as it comes; then there is an error, or the connection ends."""
    for bit in bits(1):
        consumer = Consumer()
        cause: Exception = LOSS
        for _, to_consumer in flipped(bit, 1):
            consumer.worker.send()
            try:
                consumer.worker.receive(to_consumer)
            except RemoteProtocolError as violation:
                cause = violation
                break
            consumer.act()
        assert consumer.taken == TAKEN[: len(consumer.taken)], bit
        assert consumer.taken != TAKEN, bit
        consumer.close(cause)


def test_no_flipped_bit_makes_the_producer_do_anything_else() -> None:
    """What it sends is what it would have sent, as far as it comes."""
    whole = b"".join(to_consumer for _, to_consumer in STEPS)
    for bit in bits(0):
        producer = Producer()
        sent = b""
        cause: Exception = LOSS
        for step, (to_producer, _) in enumerate(flipped(bit, 0)):
            try:
                producer.worker.receive(to_producer)
            except RemoteProtocolError as violation:
                cause = violation
                break
            producer.act(step)
            sent += producer.worker.send()
        assert whole.startswith(sent), bit
        producer.close(cause)


def test_every_message_has_its_checksum_to_the_goodbye() -> None:
    consumer = Consumer()
    consumer.gate.release()
    worker = consumer.worker
    worker.link.tick(10.0, 0)
    worker.link.close()
    received = Received()
    make_decoder(received, checksums=True).feed(worker.send())
    types = [event[0] for event in received.events]
    assert types[0] is MessageType.PARTITION_REQUEST
    assert MessageType.CANCEL_PARTITION_REQUEST in types
    assert types[-1] is MessageType.CLOSE_REQUEST


def test_a_damaged_length_does_not_wait_for_ever() -> None:
    """Everything that comes goes into a body that never ends; heartbeats are no sign of life
    then."""
    config = make_config(
        segment_bytes=1024,
        network_memory_bytes=64 * 1024,
        receive_buffer_bytes=4096,
        checksums="on",
        heartbeat_interval_ms=10_000.0,
        heartbeat_timeout_ms=60_000.0,
    )
    worker = Worker("127.0.0.1:2", "the producer", config, lambda: None)
    gate = worker.make_gate(PartitionLocation("127.0.0.1:1", "p", 0))
    damaged = bytearray(seal(buffer_response(0, body=b"\x01\x02", records=2)))
    damaged[len(damaged) - 5 - 2 - 2] ^= 2
    worker.receive(bytes(damaged))
    while worker.now <= 70.0 and worker.session.failure is None:
        worker.link.tick(worker.now, 0)
        worker.now += 10.0
        worker.receive(seal(b"\x91\x0c"))
    assert isinstance(worker.session.failure, RemoteTransportError)
    assert poll_all(gate) == []
    worker.lose(LOSS)
    with pytest.raises(RemoteTransportError, match="has sent nothing for"):
        poll_all(gate)
    gate.release()


def test_a_wrong_checksum_is_told_with_its_own_code() -> None:
    worker = Consumer().worker
    with pytest.raises(CorruptedDataError) as violation:
        worker.receive(b"\x91\x0c\xce\0\0\0\0")
    received = Received()
    farewell = worker.link.reject(violation.value)
    make_decoder(received, checksums=True).feed(farewell)
    [(kind, channel, code, text)] = received.events
    assert (kind, channel, code) == (MessageType.ERROR_RESPONSE, CONNECTION_CHANNEL, 9)
    assert "checksum" in text


def test_who_is_told_of_a_wrong_checksum_knows_that_it_was_one() -> None:
    worker = Consumer().worker
    told = encode_error(CONNECTION_CHANNEL, ErrorCode.CORRUPTED, "damaged", CONFIG.wire)
    with pytest.raises(CorruptedDataError, match="the peer closes the connection: damaged"):
        worker.receive(seal(told))

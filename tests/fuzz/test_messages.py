"""Well-formed messages in the wrong state, and the golden conversation with wrong bytes."""

from __future__ import annotations

import random

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.buffer.channel_end import ChannelEnd
from flinknet.errors import RemoteError, RemoteProtocolError
from flinknet.partition.registry import wire_partition_id
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.arrangements import event_of, put
from tests.unit.connection.joined import Joined, Worker, poll
from tests.unit.wire.received import (
    about,
    buffer_response,
    error_response,
    golden_messages,
    partition_request,
)

CHANNELS = (0, 0, 0, 1, 2, 7, CONNECTION_CHANNEL)
NUMBERS = (0, 1, 1, 2, 3, 64, 65_535, 2**32 - 1)
WITHOUT_BODY = [
    kind
    for kind in MessageType
    if kind
    not in (
        MessageType.BUFFER_RESPONSE,
        MessageType.ERROR_RESPONSE,
        MessageType.PARTITION_REQUEST,
        MessageType.CLOSE_REQUEST,
    )
]
PAIRS = (MessageType.ADD_CREDIT, MessageType.BACKLOG_ANNOUNCEMENT, MessageType.NEW_BUFFER_SIZE)


def any_message(chance: random.Random) -> bytes:
    """Return a message that a decoder accepts, whether or not it is legal in the present state."""
    channel = chance.choice(CHANNELS)
    match chance.randrange(10):
        case 0:
            name = chance.choice(("numbers", "not there", "released"))
            credit = chance.choice(NUMBERS)
            return partition_request(channel, wire_partition_id(name), chance.randrange(3), credit)
        case 1 | 2 | 3:
            sequence = chance.choice((0, 0, 1, 1, 2, 3, 4))
            kind = chance.randrange(1, len(DataType))
            body = b"\x91\x01" if kind == DataType.END_OF_DATA else b"\x90"
            return buffer_response(channel, sequence, chance.choice(NUMBERS), kind, body)
        case 4:
            return error_response(channel, chance.randrange(128), b"why")
        case 5 if chance.random() < 0.1:
            return b"\x91\x05"
        case _:
            kind = chance.choice(WITHOUT_BODY)
            numbers = [chance.choice(NUMBERS)] if kind in PAIRS else []
            return about(kind, channel, *numbers)


def stir(joined: Joined, chance: random.Random) -> None:
    """Let both sides take steps of their own."""
    for partition in joined.producer.registry.partitions():
        index = chance.randrange(len(partition.subpartitions))
        if partition.subpartitions[index].released:
            continue
        ends = partition.subpartitions[index].end is not ChannelEnd.DATA
        if partition.availability.available and not ends:
            put(partition, index, b"\x01")
            partition.flush(index)
        if chance.random() < 0.2 and not partition.finished:
            barrier = DataType.ALIGNED_CHECKPOINT_BARRIER
            partition.subpartitions[index].add_event(event_of(barrier))
        if chance.random() < 0.1 and not partition.finished:
            partition.notify_end_of_data()
        if ends and partition.all_data_processed.available and not partition.finished:
            partition.finish()
    joined.producer.send()
    joined.consumer.send()


def receive(worker: Worker, data: bytes) -> bool:
    """Return whether the connection survives; only a protocol error may end it."""
    try:
        worker.receive(data)
    except RemoteProtocolError:
        return False
    return True


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("exclusive", [0, 2])
def test_messages_in_any_order_are_taken_or_refused(seed: int, exclusive: int) -> None:
    """E12, E15, F4-F6: only a protocol error is raised, and everything is released."""
    chance = random.Random(seed)
    for _ in range(60):
        joined = Joined(buffers_per_channel=exclusive, floating_buffers_per_gate=2)
        joined.producer.make_partition("numbers", 2)
        joined.producer.make_partition("released").release()
        locations = [joined.produced(index, "numbers") for index in range(2)]
        gate = joined.consumer.make_gate(*locations)
        if chance.random() < 0.7:
            joined.producer.receive(joined.consumer.send())
        for _ in range(25):
            worker = chance.choice((joined.producer, joined.consumer))
            if not receive(worker, any_message(chance)):
                break
            stir(joined, chance)
            try:
                polled = poll(gate)
                if polled is not None and polled[1] is DataType.END_OF_DATA:
                    gate.acknowledge(polled[0])
            except RemoteError:
                break
        gate.release()
        joined.close()


@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_the_golden_conversation_with_wrong_bytes(side: str) -> None:
    """A golden stream with one to three changed bytes raises a protocol error or none."""
    stream = golden_messages(side)
    chance = random.Random(side)
    for _ in range(400):
        data = bytearray(stream)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        joined = Joined(buffers_per_channel=1, floating_buffers_per_gate=1)
        joined.producer.make_partition("numbers")
        gate = joined.consumer.make_gate(joined.produced(partition_id="numbers"))
        joined.consumer.send()
        receive(joined.consumer if side == "producer" else joined.producer, bytes(data))
        gate.release()
        joined.close()

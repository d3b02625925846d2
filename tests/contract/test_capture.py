"""A captured connection is plain msgpack, which a stock unpacker reads completely."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack

from flinknet.config import NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.net.address import split_address
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.records.partitioner import RebalancePartitioner

BUFFER_RESPONSE, PARTITION_REQUEST, CANCEL, CLOSE, ADD_CREDIT, ACKNOWLEDGE = 0, 2, 4, 5, 6, 8
DATA_BUFFER, CLEAR_END, END_OF_DATA, END_OF_PARTITION = 1, 8, 9, 10


class Capture:
    """Bytes that a proxy forwarded, from the dialling and from the accepting side."""

    def __init__(self) -> None:
        self.dialled = bytearray()
        self.accepted = bytearray()
        self.connections = 0


@asynccontextmanager
async def recording_proxy(address: str) -> AsyncIterator[tuple[str, Capture]]:
    """Listen, forward connections to ``address``, and record all bytes."""
    capture = Capture()
    carriers: set[asyncio.Task[None]] = set()

    async def carry(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray
    ) -> None:
        while data := await reader.read(65_536):
            record.extend(data)
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        capture.connections += 1
        onward_reader, onward_writer = await asyncio.open_connection(*split_address(address))
        for task in (
            asyncio.create_task(carry(reader, onward_writer, capture.dialled)),
            asyncio.create_task(carry(onward_reader, writer, capture.accepted)),
        ):
            carriers.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", capture
        await asyncio.gather(*carriers)
    finally:
        server.close()
        await server.wait_closed()


def after_handshake(stream: bytearray) -> tuple[list[Any], bytes]:
    """Split one direction into the two messages of its handshake and the bytes that follow.

    A preamble of 12 bytes stands before each message.
    """
    said = []
    for _ in range(2):
        magic, version, size = struct.unpack_from(">8sHH", stream)
        assert (magic, version) == (b"flinknet", 5)
        said.append(msgpack.unpackb(bytes(stream[12 : 12 + size])))
        stream = stream[12 + size :]
    return said, bytes(stream)


def read_all(stream: bytes) -> list[Any]:
    """Unpack a stream to its last byte with a stock unpacker."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(stream)
    values = list(unpacker)
    assert unpacker.tell() == len(stream), "bytes are left over"
    return values


async def test_a_captured_connection_is_plain_msgpack() -> None:
    """Both directions unpack from hello to goodbye, and the captured data contains the records."""
    config = NetworkConfig(segment_bytes=1024, network_memory_bytes=256 * 1024)
    records = [(number, "text", number / 2) for number in range(3_000)]
    async with NetworkEnvironment(config=config, worker_id="producer") as producer:
        partition = producer.create_result_partition("p", subpartitions=2)
        writer = producer.create_record_writer(partition, RebalancePartitioner())
        async with (
            recording_proxy(producer.address) as (address, capture),
            NetworkEnvironment(config=config, worker_id="consumer") as consumer,
        ):
            locations = [PartitionLocation(address, "p", index) for index in range(2)]
            reader = consumer.create_record_reader(consumer.create_input_gate(locations))

            async def produce() -> None:
                await writer.emit_many(records)
                await writer.finish()

            async def consume() -> list[Any]:
                return [record async for record in reader]

            _, taken = await asyncio.gather(produce(), consume())
            reader.close()
    assert sorted(taken) == records
    assert capture.connections == 1

    (opening, hello), stream = after_handshake(capture.dialled)
    assert (opening[0], hello[0]) == (1, 3)
    assert hello[5] == "consumer"
    requests = read_all(stream)
    assert [message[:2] for message in requests[:2]] == [
        [PARTITION_REQUEST, 0],
        [PARTITION_REQUEST, 1],
    ]
    assert {message[0] for message in requests[2:-1]} == {ADD_CREDIT, ACKNOWLEDGE, CANCEL}
    assert requests[-1] == [CLOSE]

    (challenge, answer), stream = after_handshake(capture.accepted)
    assert (challenge[0], answer[:2]) == (2, [4, 1])
    assert answer[6] == "producer"
    answers = read_all(stream)
    data: dict[int, bytes] = {0: b"", 1: b""}
    types: dict[int, list[int]] = {0: [], 1: []}
    while answers:
        kind, *fields = answers.pop(0)
        if kind != BUFFER_RESPONSE:
            assert [kind, *fields] == [CLOSE]
            continue
        channel, sequence, _, data_type, continued, unfinished, number = fields
        body = answers.pop(0)
        assert sequence == len(types[channel])
        types[channel].append(data_type)
        if data_type in (DATA_BUFFER, CLEAR_END):
            data[channel] += body
            assert len(read_all(body[continued : len(body) - unfinished])) == number
    for channel in (0, 1):
        assert [tuple(record) for record in read_all(data[channel])] == records[channel::2]
        assert types[channel][-2:] == [END_OF_DATA, END_OF_PARTITION]
        assert set(types[channel][:-2]) <= {DATA_BUFFER, CLEAR_END}

    credit = sum(message[2] for message in requests if message[0] == ADD_CREDIT)
    initial = sum(message[4] for message in requests if message[0] == PARTITION_REQUEST)
    buffers = sum(len(kinds) - 2 for kinds in types.values())
    assert buffers <= credit + initial, "data was sent without credit"

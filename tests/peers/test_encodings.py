"""Readers accept every encoding that the specification permits."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from flinknet import NetworkEnvironment
from tests.peers.python import wire
from tests.peers.strangers import Stranger, accepting, connect, identity

ENCODINGS: dict[str, tuple[str, Any]] = {
    "float of 32 bits": ("ca 3fc00000", 1.5),
    "uint8": ("cc 01", 1),
    "uint16": ("cd 0001", 1),
    "uint32": ("ce 00000001", 1),
    "uint64": ("cf 0000000000000001", 1),
    "int8": ("d0 ff", -1),
    "int16": ("d1 ffff", -1),
    "int32": ("d2 ffffffff", -1),
    "int64": ("d3 ffffffffffffffff", -1),
    "str8": ("d9 01 61", "a"),
    "str16": ("da 0001 61", "a"),
    "str32": ("db 00000001 61", "a"),
    "bin16": ("c5 0001 00", b"\x00"),
    "bin32": ("c6 00000001 00", b"\x00"),
    "array16": ("dc 0001 01", (1,)),
    "array32": ("dd 00000001 01", (1,)),
    "map16": ("de 0001 01 02", {1: 2}),
    "map32": ("df 00000001 01 02", {1: 2}),
    "equal keys": ("83 01 a161 c3 a162 02 a163", {1: "b", 2: "c"}),
    "ext8": ("c7 03 01 cd 4756", date(2020, 1, 1)),
    "ext16": ("c8 0003 01 cd 4756", date(2020, 1, 1)),
    "ext32": ("c9 00000003 01 cd 4756", date(2020, 1, 1)),
    "wide content": ("c7 09 01 d3 0000000000004756", date(2020, 1, 1)),
}


async def test_every_encoding_of_a_value_is_read(environment: NetworkEnvironment) -> None:
    """Every encoding of a value is read, also in buffers of one byte with empty ones between."""
    records = [bytes.fromhex(encoded) for encoded, _ in ENCODINGS.values()]

    def act(peer: Stranger) -> None:
        number = peer.expect(wire.REQUEST).fields[0]
        peer.buffer(number, 0, wire.DATA_WITH_CLEAR_END, b"".join(records), records=len(records))
        sequence, credit = 1, 1

        def send(kind: int, body: bytes, **cut: int) -> None:
            nonlocal sequence, credit
            while not credit:
                credit += peer.expect(wire.ADD_CREDIT).fields[1]
            peer.buffer(number, sequence, kind, body, **cut)
            sequence, credit = sequence + 1, credit - 1

        for record in records:
            send(wire.DATA, record[:1], unfinished=1)
            for place in range(1, len(record) - 1):
                send(wire.DATA, record[place : place + 1], continued=1)
                send(wire.DATA, b"")
            send(wire.DATA_WITH_CLEAR_END, record[-1:], continued=1)
        peer.buffer(number, sequence, wire.END_OF_DATA, b"\x91\x01")
        peer.expect(wire.ACKNOWLEDGE)
        peer.buffer(number, sequence + 1, wire.END_OF_PARTITION, b"\x90")
        peer.expect(wire.CANCEL)

    async with accepting(act) as (address, outcome):
        async with environment.open_reader(address, "p") as reader:
            found = [record async for record in reader]
        await outcome
    expected = [value for _, value in ENCODINGS.values()]
    assert found == expected * 2
    assert list(map(repr, found)) == list(map(repr, expected * 2))


def sizes(peer: Stranger) -> list[int]:
    """Read a channel to its end, and leave; return the sizes of its data buffers."""
    found = []
    while (message := peer.expect(wire.BUFFER)).fields[3] != wire.END_OF_DATA:
        found.append(len(message.body))
    peer.send(wire.ACKNOWLEDGE, 0)
    assert peer.expect(wire.BUFFER).fields[3] == wire.END_OF_PARTITION
    peer.send(wire.CANCEL, 0)
    peer.send(wire.CANCEL, 1)
    peer.leave()
    return found


async def test_a_size_that_is_asked_for_before_the_partition_is_there_counts(
    environment: NetworkEnvironment,
) -> None:
    """The last requested size counts from the first buffer on."""
    other = environment.create_result_partition("other", subpartitions=1)
    peer = await asyncio.to_thread(connect, environment.address)

    def begin() -> None:
        peer.dial(identity(), b"")
        peer.request("p", credit=60_000)
        for size in (400, 64):
            peer.send(wire.BUFFER_SIZE, 0, size)
        peer.request("other", channel=1, index=1)
        peer.expect(wire.ERROR)  # an answer, which shows that the messages before were handled

    with peer:
        await asyncio.to_thread(begin)
        async with environment.open_writer("p") as writer:
            await writer.emit_many(["x" * 9] * 1_000)
            reading = asyncio.create_task(asyncio.to_thread(sizes, peer))
        found = await reading
    other.release()
    assert sum(found) == 10_000
    assert 50 < max(found) <= 64


@pytest.mark.parametrize("size", [1, 64])
async def test_a_producer_fills_buffers_up_to_the_size_that_it_was_asked_for(
    environment: NetworkEnvironment, size: int
) -> None:
    """A producer fills buffers up to the requested size; a single record may exceed it."""
    peer = await asyncio.to_thread(connect, environment.address)

    def begin() -> None:
        peer.dial(identity(), b"")
        peer.request("p", credit=60_000)
        peer.expect(wire.BUFFER)
        peer.send(wire.BUFFER_SIZE, 0, size)
        peer.request("p", channel=1, index=1)
        peer.expect(wire.ERROR)  # an answer, which shows that the message before was handled

    with peer:
        async with environment.open_writer("p", buffer_timeout_ms=0.0) as writer:
            await writer.emit("x" * 300)
            await asyncio.to_thread(begin)
            reading = asyncio.create_task(asyncio.to_thread(sizes, peer))
            await writer.emit_many(["x" * 9] * 1_000)
        found = await reading
    assert sum(found) == 10_000
    assert max(found) <= max(size, 10)

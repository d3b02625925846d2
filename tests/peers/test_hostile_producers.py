"""A producer that breaks the protocol makes its reader fail, and affects no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flinknet import NetworkEnvironment
from flinknet.errors import CorruptedDataError, FlinknetError, RemoteError, RemoteProtocolError
from tests.peers.python import wire
from tests.peers.strangers import LOST, Stranger, accepting

pytestmark = pytest.mark.usefixtures("bystander")

PROTOCOL, CORRUPTED = 1, 9
DATA, CLEAR, END, OVER = 1, 8, 9, 10
END_BODY, OVER_BODY = b"\x91\x01", b"\x90"

Break = Callable[[Stranger], None]


def truncate(peer: Stranger) -> None:
    peer.buffer(0, 0, CLEAR, b"\x01", records=1)
    peer.buffer(0, 1, OVER, OVER_BODY)


def go_on_behind_the_end(peer: Stranger) -> None:
    peer.buffer(0, 0, END, END_BODY)
    peer.buffer(0, 1, CLEAR, b"\x01", records=1)


def go_on_behind_the_acknowledgement(peer: Stranger) -> None:
    peer.buffer(0, 0, END, END_BODY)
    peer.expect(wire.ACKNOWLEDGE)
    peer.buffer(0, 1, CLEAR, b"\x01", records=1)


def end_twice(peer: Stranger) -> None:
    peer.buffer(0, 0, END, END_BODY)
    peer.buffer(0, 1, END, END_BODY)


def end_twice_when_acknowledged(peer: Stranger) -> None:
    peer.buffer(0, 0, END, END_BODY)
    peer.expect(wire.ACKNOWLEDGE)
    peer.buffer(0, 1, END, END_BODY)


def not_wait_for_the_acknowledgement(peer: Stranger) -> None:
    end = wire.encode(wire.BUFFER, 0, 0, 0, END, 0, 0, 0, body=END_BODY)
    over = wire.encode(wire.BUFFER, 0, 1, 0, OVER, 0, 0, 0, body=OVER_BODY)
    peer.send_together([end, over])


def send_without_credit(peer: Stranger) -> None:
    data = [wire.encode(wire.BUFFER, 0, n, 0, CLEAR, 0, 0, 1, body=b"\x01") for n in range(50)]
    peer.send_together(data)


def leave_out_a_buffer(peer: Stranger) -> None:
    peer.buffer(0, 0, CLEAR, b"\x01", records=1)
    peer.buffer(0, 2, CLEAR, b"\x03", records=1)


def send_for_a_channel_that_nobody_requested(peer: Stranger) -> None:
    peer.buffer(7, 0, CLEAR, b"\x01", records=1)


def go_on_behind_a_block(kind: int, body: bytes, records: int = 0) -> Break:
    """Send a blocking event and the next buffer together, before the reader sees the block."""

    def send(peer: Stranger) -> None:
        barrier = wire.encode(wire.BUFFER, 0, 0, 0, 4, 0, 0, 0, body=b"\x90")
        behind = wire.encode(wire.BUFFER, 0, 1, 0, kind, 0, 0, records, body=body)
        peer.send_together([barrier, behind])

    return send


def announce_needlessly(peer: Stranger) -> None:
    peer.send(wire.BACKLOG, 0, 1)


def say_an_error_of_code_0(peer: Stranger) -> None:
    peer.send(wire.ERROR, 0, 0, "")


def say_a_long_error(peer: Stranger) -> None:
    peer.send(wire.ERROR, 0, 8, "x" * 1025)


def say_an_error_that_is_no_text(peer: Stranger) -> None:
    peer.send_raw(b"\x94\x01\xce\x00\x00\x00\x00\x08\xda\x00\x01\xff")


def send_an_unknown_message(peer: Stranger) -> None:
    peer.send_raw(b"\x92\x03\xce\x00\x00\x00\x00")


def encode_otherwise(peer: Stranger) -> None:
    """Send a heartbeat as array16.

    Its second byte reads as the type of a buffer. So a receiver with checksums judges it only when
    as many bytes have come as such a header has.
    """
    peer.send_raw(b"\xdc\x00\x01\x0c".ljust(38, b"\x00"))


def one(kind: int, body: bytes, **fields: int) -> Break:
    """Send one buffer with wrong fields or a wrong body."""

    def send(peer: Stranger) -> None:
        peer.buffer(0, 0, kind, body, **fields)

    return send


VIOLATIONS: dict[str, Break] = {
    "truncated stream": truncate,
    "record behind END_OF_DATA": go_on_behind_the_end,
    "record behind the acknowledgement": go_on_behind_the_acknowledgement,
    "END_OF_DATA twice": end_twice,
    "END_OF_DATA twice when acknowledged": end_twice_when_acknowledged,
    "END_OF_PARTITION before the acknowledgement": not_wait_for_the_acknowledgement,
    "data without credit": send_without_credit,
    "wrong sequence number": leave_out_a_buffer,
    "data behind a block": go_on_behind_a_block(CLEAR, b"\x01", 1),
    "event behind a block": go_on_behind_a_block(2, b"\x90"),
    "event that overtakes behind a block": go_on_behind_a_block(3, b"\x90"),
    "second barrier behind a block": go_on_behind_a_block(4, b"\x90"),
    "end of data behind a block": go_on_behind_a_block(END, END_BODY),
    "unknown channel": send_for_a_channel_that_nobody_requested,
    "needless announcement": announce_needlessly,
    "error of code 0": say_an_error_of_code_0,
    "long error": say_a_long_error,
    "error that is no text": say_an_error_that_is_no_text,
    "unknown message": send_an_unknown_message,
    "other encoding": encode_otherwise,
    "body over the segment size": one(CLEAR, b"\x01" * 513, records=513),
    "cut outside of the body": one(DATA, b"\x01", continued=1, unfinished=1),
    "more records than bytes": one(CLEAR, b"\x01", records=2),
    "clear end with an unfinished record": one(CLEAR, b"\x92", unfinished=1),
    "no clear end, and nothing unfinished": one(DATA, b"\x01", records=1),
    "data type 0": one(0, b"\x90"),
    "data type 12": one(12, b"\x90"),
    "event with records": one(END, END_BODY, records=1),
    "event with a continuation": one(END, END_BODY, continued=1),
    "END_OF_DATA with another body": one(END, b"\x91\x02"),
    "END_OF_DATA without a body": one(END, b""),
    "END_OF_DATA in another encoding": one(END, b"\xdc\x00\x01\x01"),
    "long event": one(2, b"\x90" + bytes(1024)),
}


async def read(environment: NetworkEnvironment, address: str, name: str = "p") -> list[Any]:
    async with environment.open_reader(address, name) as reader:
        return [record async for record in reader]


@pytest.mark.parametrize("checksums", [0, 1])
@pytest.mark.parametrize("breach", VIOLATIONS.values(), ids=VIOLATIONS)
async def test_a_violation_ends_the_connection_and_its_reader(
    environment: NetworkEnvironment, breach: Break, checksums: int
) -> None:
    """A violation ends the connection with PROTOCOL, and the reader gets an error, not an end."""

    def act(peer: Stranger) -> Any:
        peer.expect(wire.REQUEST)
        breach(peer)
        return peer.condemned()

    async with accepting(act, checksums=checksums) as (address, outcome):
        with pytest.raises(RemoteProtocolError):
            await read(environment, address)
        assert await outcome == PROTOCOL


async def test_a_flipped_bit_never_arrives(environment: NetworkEnvironment) -> None:
    """A flipped bit in a header, a body or a checksum ends the connection with CORRUPTED.

    A length over the limit is a protocol violation at once.
    """
    buffer = wire.encode(wire.BUFFER, 0, 0, 0, CLEAR, 0, 0, 1, body=b"\xa3abc")
    sealed = buffer + b"\xce" + wire.crc32c(buffer).to_bytes(4, "big")
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 4

        def act(peer: Stranger, changed: bytes = bytes(changed)) -> Any:
            peer.expect(wire.REQUEST)
            peer.socket.sendall(changed)
            return peer.condemned()

        async with accepting(act, checksums=1) as (address, outcome):
            # These are the high bytes of the body's length.
            long = 34 <= position < 37
            with pytest.raises(RemoteProtocolError if long else CorruptedDataError):
                await read(environment, address)
            assert await outcome == (PROTOCOL if long else CORRUPTED), position


@pytest.mark.parametrize("kept", [1, 2, 20, 40])
async def test_a_stream_that_ends_in_a_message_is_a_loss(
    environment: NetworkEnvironment, kept: int
) -> None:
    def act(peer: Stranger) -> Any:
        peer.expect(wire.REQUEST)
        peer.buffer(0, 0, CLEAR, b"\x01", records=1)
        peer.send_raw(wire.encode(wire.BUFFER, 0, 1, 0, CLEAR, 0, 0, 1, body=bytes(99))[:kept])

    async with accepting(act) as (address, outcome):
        with pytest.raises(FlinknetError) as raised:
            await read(environment, address)
        assert not isinstance(raised.value, RemoteProtocolError)
        await outcome


@pytest.mark.parametrize("acknowledged", [False, True])
async def test_a_stream_without_its_last_event_is_a_loss(
    environment: NetworkEnvironment, acknowledged: bool
) -> None:
    """A stream without its last event is a loss, also after a close request."""

    def act(peer: Stranger) -> Any:
        peer.expect(wire.REQUEST)
        peer.buffer(0, 0, CLEAR, b"\x01", records=1)
        if acknowledged:
            peer.buffer(0, 1, END, END_BODY)
            peer.expect(wire.ACKNOWLEDGE)
        peer.leave()

    async with accepting(act) as (address, outcome):
        with pytest.raises(FlinknetError):
            await read(environment, address)
        await outcome


def end_in_a_record(peer: Stranger, channel: int) -> None:
    peer.buffer(channel, 0, DATA, b"\x92\x01", unfinished=2)
    peer.buffer(channel, 1, END, END_BODY)


def end_behind_nothing(peer: Stranger, channel: int) -> None:
    peer.buffer(channel, 0, CLEAR, b"\x01", records=1)
    peer.buffer(channel, 1, DATA)
    peer.buffer(channel, 2, END, END_BODY)


BAD_RECORDS: dict[str, Callable[[Stranger, int], None]] = {
    "no MessagePack": lambda peer, n: peer.buffer(n, 0, CLEAR, b"\xc1", records=1),
    "fewer records than said": lambda peer, n: peer.buffer(n, 0, CLEAR, b"\x01\x02", records=1),
    "a record that is cut off": lambda peer, n: peer.buffer(n, 0, CLEAR, b"\x92\x01", records=1),
    "an unknown extension": lambda peer, n: peer.buffer(n, 0, CLEAR, b"\xd4\x0b\x00", records=1),
    "a class that nobody gave": lambda peer, n: peer.buffer(
        n, 0, CLEAR, b"\xd6\x09\x93\x04\x03\x04", records=1
    ),
    "a date that is none": lambda peer, n: peer.buffer(
        n, 0, CLEAR, b"\xc7\x05\x01\xce\x7f\xff\xff\xff", records=1
    ),
    "a map with a map as its key": lambda peer, n: peer.buffer(
        n, 0, CLEAR, b"\x81\x80\x01", records=1
    ),
    "a blocking event": lambda peer, n: peer.buffer(n, 0, 4, b"\x90"),
    "data that goes on with nothing": lambda peer, n: peer.buffer(
        n, 0, CLEAR, b"\x01", continued=1
    ),
    "data that ends in a record": end_in_a_record,
    "data that ends with nothing of a record": end_behind_nothing,
    "a decimal with blanks": lambda peer, n: peer.buffer(
        n, 0, CLEAR, b"\xc7\x03\x05\xa2 1", records=1
    ),
}


@pytest.mark.parametrize("bad", BAD_RECORDS.values(), ids=BAD_RECORDS)
async def test_bad_records_end_their_reader_and_not_the_connection(
    environment: NetworkEnvironment, bad: Callable[[Stranger, int], None]
) -> None:
    """Bad records end their channel with a cancel, and the other channel completes."""

    def act(peer: Stranger) -> Any:
        numbers = {peer.expect(wire.REQUEST).fields[1]: number for number in (0, 1)}
        bad(peer, numbers[wire.partition_id("bad")])
        assert peer.expect(wire.CANCEL).fields[0] == numbers[wire.partition_id("bad")]
        good = numbers[wire.partition_id("p")]
        peer.buffer(good, 0, CLEAR, b"\x01\x02", records=2)
        for sequence, event in enumerate((2, 3, 7, 11), start=1):
            peer.buffer(good, sequence, event, b"\xc1 whatever")
        peer.buffer(good, 5, END, END_BODY)
        peer.expect(wire.ACKNOWLEDGE)
        peer.buffer(good, 6, OVER, OVER_BODY)
        assert peer.expect(wire.CANCEL).fields[0] == good

    async with accepting(act) as (address, outcome):
        reading = asyncio.create_task(read(environment, address))
        with pytest.raises(FlinknetError):
            await read(environment, address, "bad")
        assert await reading == [1, 2]
        await outcome


async def test_an_unknown_error_for_the_connection_ends_it(
    environment: NetworkEnvironment,
) -> None:
    """An unknown error for the connection ends it without an answer."""

    def act(peer: Stranger) -> Any:
        peer.expect(wire.REQUEST)
        peer.send(wire.ERROR, wire.WHOLE_CONNECTION, 99, "I do not like you")
        return peer.condemned()

    async with accepting(act) as (address, outcome):
        with pytest.raises(RemoteError, match="I do not like you"):
            await read(environment, address)
        assert await outcome == LOST

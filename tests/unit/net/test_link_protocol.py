"""One socket: bytes in any pieces, peers that do not read or break the protocol, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from typing import Any, Self

import pytest
import uvloop

from flinknet.config import WireLimits
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import (
    ConsumerCancelledError,
    ErrorCode,
    ProducerFailedError,
    RemoteError,
    RemoteProtocolError,
    RemoteTransportError,
)
from flinknet.metrics.turns import Turns
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.partition.registry import wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.partitioner import RebalancePartitioner
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.arrangements import put
from tests.unit.connection.joined import messages
from tests.unit.net.deaf_socket import cut
from tests.unit.net.stranger import (
    Host,
    Stranger,
    assert_nothing_is_held,
    identity_for,
    peers,
    quick,
    until,
)
from tests.unit.wire.received import about, buffer_response, error_response, partition_request

M = MessageType
P = wire_partition_id("p")
CLOSE_REQUEST = b"\x91\x05"


class Bystanders:
    """A producer and a consumer on a connection of their own, which must not be disturbed."""

    def __init__(self, environment: NetworkEnvironment) -> None:
        self._environment = environment
        self._other = NetworkEnvironment(worker_id="bystander", config=environment.config)
        self._written = 0

    async def __aenter__(self) -> Self:
        await self._other.__aenter__()
        partition = self._environment.create_result_partition("bystanders", subpartitions=1)
        self._writer = self._environment.create_record_writer(partition, buffer_timeout_ms=0)
        location = PartitionLocation(self._environment.address, "bystanders", 0)
        gate = self._other.create_input_gate([location])
        self._reader = self._other.create_record_reader(gate)
        await self.go_on()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._writer.close()
        self._reader.close()
        await self._other.__aexit__(None, None, None)

    async def go_on(self) -> None:
        """Exchange another record."""
        self._written += 1
        await self._writer.emit(self._written)
        batch = await self._reader.next_batch()
        assert batch is not None
        assert list(batch) == [self._written]


# -- a peer that breaks the protocol ---------------------------------------------------------------

VIOLATIONS = {
    "an unknown type": b"\x92\x03",
    "no message": b"\xc1\xc1\xc1\xc1",
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "a body too long": buffer_response(0, size=2**32 - 1, body=b""),
    "data for nobody": buffer_response(0),
    "an error for nobody": error_response(0, 6, b"boom"),
    "credit for nobody": about(M.ADD_CREDIT, 0, 1),
    "an acknowledgement of nothing": partition_request(0)
    + about(M.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, 0),
    "a resume of nothing": partition_request(0, P) + about(M.RESUME_CONSUMPTION, 0),
    "a request twice": partition_request(0) + partition_request(0),
    "too much credit": partition_request(0, credit=2**32 - 1),
    "something after goodbye": b"\x91\x05\x91\x05",
}


@pytest.mark.parametrize("violation", VIOLATIONS)
async def test_a_peer_that_breaks_the_protocol_is_told_and_closed(violation: str) -> None:
    """Invariant I10: one typed error closes that connection, all others are untouched, and nothing
    is kept."""
    async with (
        NetworkEnvironment(config=quick()) as environment,
        Bystanders(environment) as bystanders,
    ):
        partition = environment.create_result_partition("p", subpartitions=1)
        async with Stranger.meet(environment) as stranger:
            good = peers(environment).established
            stranger.send(VIOLATIONS[violation])
            if violation == "something after goodbye":
                assert await stranger.read_to_end() == b""
            else:
                [(kind, channel, code, text)] = await stranger.read_messages(1)
                assert (kind, channel, code) == (M.ERROR_RESPONSE, CONNECTION_CHANNEL, 1)
                assert "the peer" in text
        await until(lambda: peers(environment).established == good - 1)
        assert len(environment.statistics().connections) == 1
        kind = "credit" if violation == "too much credit" else "message"
        assert peers(environment).violations == ((kind, 1),)
        await bystanders.go_on()
        partition.release()


async def test_a_violation_releases_what_the_peer_was_reading() -> None:
    """The writer learns the peer's violation, not only `the connection was lost`."""
    async with NetworkEnvironment(config=quick()) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        writer = environment.create_record_writer(partition, buffer_timeout_ms=0)
        async with Stranger.meet(environment) as stranger:
            stranger.send(partition_request(0, P))
            await writer.emit(1)
            [data] = await stranger.read_messages(1)
            assert data[0] is M.BUFFER_RESPONSE
            stranger.send(b"\xc1\xc1")
            await stranger.read_messages(1)
        with pytest.raises(RemoteProtocolError, match="unknown type 193"):
            await fill(writer)
        writer.close()
        await assert_nothing_is_held(environment)


async def test_a_peer_that_breaks_the_protocol_and_does_not_read_is_closed_as_well() -> None:
    """The unsent bytes in the socket do not delay the close."""
    config = quick(
        segment_bytes=32_768, network_memory_bytes=32 * 2**20, buffers_per_subpartition_max=900
    )
    async with NetworkEnvironment(config=config) as environment:
        partition = environment.create_result_partition("p", subpartitions=8)
        writer = environment.create_record_writer(partition, RebalancePartitioner())
        async with Stranger.meet(environment, receive_buffer_bytes=4096) as stranger:
            for channel in range(8):
                stranger.send(partition_request(channel, P, channel, credit=60_000))
            writing = asyncio.create_task(fill(writer))
            await until(lambda: is_stuck(environment))
            stranger.send(b"\xc1\xc1")
            with pytest.raises(RemoteProtocolError):
                await writing
        await until(lambda: peers(environment).established == 0)
        writer.close()
        await assert_nothing_is_held(environment)


async def fill(writer: Any) -> None:
    """Write until there is no reader left."""
    while True:
        await writer.emit(bytes(30_000))


def is_stuck(environment: NetworkEnvironment) -> bool:
    """Return whether the socket holds buffers that it cannot send, and the writer waits for
    them."""
    statistics = environment.statistics()
    [connection] = statistics.connections
    pool = statistics.partitions[0].pool
    return connection.buffers_in_flight > 0 and not pool.available


async def test_a_peer_that_does_not_read_is_cut_off_at_the_limit() -> None:
    """Reliability 2 and 7: this covers answers that the peer provokes and never reads."""
    config = quick(wire=WireLimits(control_bytes_max=64 * 1024))
    async with (
        NetworkEnvironment(config=config) as environment,
        Bystanders(environment) as bystanders,
    ):
        environment.create_result_partition("gone", subpartitions=1).release()
        stranger = await Stranger.dial(environment.address, receive_buffer_bytes=4096)
        await stranger.introduce(identity_for(environment))
        stranger.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: peers(environment).accepted_total == 2)
        channel = 0
        with contextlib.suppress(ConnectionError):
            while peers(environment).lost_total == 0:
                for _ in range(1000):
                    stranger.send(partition_request(channel, wire_partition_id("gone")))
                    channel += 1
                await stranger.writer.drain()
        await until(lambda: peers(environment).lost_total == 1)
        assert peers(environment).violations == (("unread", 1),)
        await stranger.close()
        await bystanders.go_on()


async def test_a_peer_that_breaks_the_protocol_again_and_again_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each violation is counted, but only the first is logged."""
    async with NetworkEnvironment(config=quick()) as environment:
        for _ in range(20):
            async with Stranger.meet(environment) as stranger:
                stranger.send(partition_request(0) + about(M.ADD_CREDIT, 0, 2**31))
                await stranger.read_messages(1)
            await until(lambda: peers(environment).established == 0)
        assert peers(environment).violations == (("credit", 20),)
    [line] = [record for record in caplog.records if record.levelname != "DEBUG"]
    assert line.message.startswith("broke the protocol (credit): stranger at 127.0.0.1:9: the peer")


# -- a peer that floods ----------------------------------------------------------------------------


async def test_a_turn_of_the_loop_handles_a_bounded_number_of_one_peers_messages() -> None:
    """This holds for any number of messages in one read. Reading goes on when they are handled."""
    config = quick(turn_messages_max=10, receive_buffer_bytes=64 * 1024)
    async with (
        NetworkEnvironment(config=config) as environment,
        Stranger.meet(environment) as stranger,
    ):
        stranger.send(partition_request(0, credit=1) + about(M.ADD_CREDIT, 0, 1) * 5_000)
        credit = 0
        while credit < 5_001:
            await asyncio.sleep(0)
            connection = environment.statistics().connections[0]
            credit, before = sum(reader.credit for reader in connection.readers), credit
            assert credit - before <= 10 * 2, "a read, and what was left of the one before"
        [alone] = environment.network_statistics().connections
        assert (len(alone.readers), alone.credit) == (1, credit)
        turns = Turns()
        [totals] = turns.at_once(environment.network_totals(turns)).connections
        assert (totals.connection.readers, totals.readers, totals.credit) == ((), 1, credit)


async def test_a_flood_of_legal_messages_does_not_starve_other_connections() -> None:
    """A bystander's records go on. The flood is handled meanwhile, and its socket is held back."""
    config = quick(turn_messages_max=10, wire=WireLimits(heartbeats_per_minute_max=10_000_000))
    async with (
        NetworkEnvironment(config=config) as environment,
        Bystanders(environment) as bystanders,
        Stranger.meet(environment) as stranger,
    ):
        transport = stranger.writer.transport
        [flooded] = [
            connection
            for connection in environment.statistics().connections
            if connection.peer.startswith("stranger")
        ]
        for _ in range(30):
            if transport.get_write_buffer_size() < 2**20:
                stranger.send(b"\x91\x0c" * 2**20)
            await bystanders.go_on()
        assert transport.get_write_buffer_size() > 0, "the flood was not held back"
        [later] = [
            connection
            for connection in environment.statistics().connections
            if connection.peer == flooded.peer
        ]
        assert later.bytes_in > flooded.bytes_in


@pytest.mark.parametrize(
    ("flood", "kind"), [("heartbeats", "heartbeats"), ("requests that are cancelled", "cancels")]
)
async def test_a_flood_that_no_honest_peer_needs_ends_the_connection(flood: str, kind: str) -> None:
    wire = WireLimits(
        heartbeats_per_minute_max=1_000,
        channels_per_connection_max=500,
        unused_requests_per_minute_max=500,
    )
    async with (
        NetworkEnvironment(config=quick(wire=wire)) as environment,
        Bystanders(environment) as bystanders,
    ):
        async with Stranger.meet(environment) as stranger:
            if flood == "heartbeats":
                stranger.send(b"\x91\x0c" * 100_000)
            else:
                for channel in range(10_000):
                    request = partition_request(channel)
                    stranger.send(request + about(M.CANCEL_PARTITION_REQUEST, channel))
            [told] = await stranger.read_messages(1)
        assert "per_minute_max" in told[3]
        assert peers(environment).violations == ((kind, 1),)
        await until(lambda: peers(environment).established == 1)
        await bystanders.go_on()


@pytest.mark.parametrize("turn_messages_max", [1, 2, 3, 4])
async def test_a_turn_that_ends_where_a_connection_stalls_is_gone_on_with(
    turn_messages_max: int,
) -> None:
    """Flow control is off.

    A frame waits for a buffer, and the messages behind it wait for the next turn. No further bytes
    arrive that would make the socket read.
    """
    config = quick(
        flow_control="off",
        turn_messages_max=turn_messages_max,
        buffers_per_channel=1,
        floating_buffers_per_gate=1,
        close_timeout_ms=1.0,
    )
    async with Host() as host, NetworkEnvironment(config=config) as environment:
        gate = environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
        reader = environment.create_record_reader(gate)
        producer = await host.accept()
        host.answer(producer)
        await producer.read_messages(1)
        data = [
            buffer_response(0, sequence, body=bytes([sequence]), records=1)
            + b"\x91\x0c" * (sequence % 3)
            for sequence in range(100)
        ]
        producer.send(b"".join(data))
        taken: list[int] = []
        while len(taken) < 100:
            batch = await reader.next_batch()
            assert batch is not None
            taken += batch
        assert taken == list(range(100))
        reader.close()


async def test_a_peer_that_closes_behind_what_is_still_to_be_handled_is_read_to_its_end() -> None:
    config = quick(turn_messages_max=1)
    async with NetworkEnvironment(config=config) as environment:
        async with Stranger.meet(environment) as stranger:
            stranger.send(b"\x91\x0c" * 2_000 + b"\xc1\xc1")
            [(kind, channel, code, _)] = await stranger.read_messages(1)
            assert (kind, channel, code) == (M.ERROR_RESPONSE, CONNECTION_CHANNEL, 1)
        await until(lambda: peers(environment).established == 0)


async def test_all_peers_of_a_worker_share_its_channels() -> None:
    config = quick(wire=WireLimits(channels_per_worker_max=3))
    async with (
        NetworkEnvironment(config=config) as environment,
        Stranger.meet(environment, worker_id="one", address="127.0.0.1:1") as one,
        Stranger.meet(environment, worker_id="other", address="127.0.0.1:2") as other,
    ):
        one.send(b"".join(map(partition_request, range(3))))
        await until(lambda: readers_of(environment, "one") == 3)
        other.send(partition_request(0))
        [(kind, channel, code, text)] = await other.read_messages(1)
        assert (kind, channel, code) == (M.ERROR_RESPONSE, 0, ErrorCode.TOO_MANY_CHANNELS)
        assert "channels_per_worker_max" in text
        one.send(about(M.CANCEL_PARTITION_REQUEST, 0))
        await until(lambda: readers_of(environment, "one") == 2)
        other.send(partition_request(1))
        await until(lambda: readers_of(environment, "other") == 1)


def readers_of(environment: NetworkEnvironment, worker_id: str) -> int:
    """Return the number of channels that a peer has open here."""
    [connection] = [
        connection
        for connection in environment.statistics().connections
        if connection.peer.startswith(worker_id)
    ]
    return len(connection.readers)


# -- a socket that takes its time ------------------------------------------------------------------


async def test_a_slow_reader_gets_every_byte_in_order() -> None:
    """Writes are partial: no buffer is reused before the socket has released it."""
    number = 400
    config = quick(
        segment_bytes=32_768, network_memory_bytes=32 * 2**20, buffers_per_subpartition_max=900
    )
    async with NetworkEnvironment(config=config) as environment:
        partition = environment.create_result_partition("p", subpartitions=4)
        writer = environment.create_record_writer(partition, RebalancePartitioner())
        async with Stranger.meet(environment, receive_buffer_bytes=8192) as stranger:
            for channel in range(4):
                stranger.send(partition_request(channel, P, channel, credit=60_000))
            writing = asyncio.create_task(emit_all(writer, number))
            received: dict[int, bytes] = dict.fromkeys(range(4), b"")
            stuck = 0
            stream = bytearray()
            while not writing.done() or len(b"".join(received.values())) < number * 30_003:
                stuck += is_stuck(environment)
                stream += await stranger.reader.read(7_000)
                take_buffers(stream, received)
            assert stuck, "the socket never filled up: the test shows nothing"
            for channel, content in received.items():
                expected = [record_of(n) for n in range(number) if n % 4 == channel]
                assert content == b"".join(b"\xc5\x75\x30" + record for record in expected)
        writer.close()
        await assert_nothing_is_held(environment)


def record_of(number: int) -> bytes:
    return number.to_bytes(2, "big") * 15_000


async def emit_all(writer: Any, number: int) -> None:
    for n in range(number):
        await writer.emit(record_of(n))
    writer.flush()


def take_buffers(stream: bytearray, received: dict[int, bytes]) -> None:
    """Take whole BufferResponses off a stream, and check their sequence."""
    while len(stream) >= 38:
        assert stream[:2] == b"\x98\x00"
        size = int.from_bytes(stream[34:38], "big")
        if len(stream) < 38 + size:
            return
        received[int.from_bytes(stream[3:7], "big")] += stream[38 : 38 + size]
        del stream[: 38 + size]


async def test_memory_that_a_write_has_freed_may_be_used_in_the_same_turn() -> None:
    """There are more pieces than one system call takes, so uvloop keeps its views for another
    turn."""
    channels = 600
    config = quick(
        segment_bytes=256, network_memory_bytes=256 * 1024, buffers_per_subpartition_max=900
    )
    async with NetworkEnvironment(config=config) as environment:
        partition = environment.create_result_partition("p", subpartitions=channels)
        async with Stranger.meet(environment) as stranger:
            for channel in range(channels):
                stranger.send(partition_request(channel, P, channel))
            await until(lambda: len(environment.statistics().connections[0].readers) == channels)
            for channel in range(channels):
                put(partition, channel, b"\x01")
            partition.seal_all()  # schedules the write
            assert await asyncio.create_task(use_all(partition)) > channels
            stream = bytearray()
            received = dict.fromkeys(range(channels), b"")
            while not all(received.values()):
                stream += await stranger.reader.read(65536)
                take_buffers(stream, received)
            assert {content[:1] for content in received.values()} == {b"\x01"}
        partition.release()
        await assert_nothing_is_held(environment)


async def use_all(partition: ResultPartition) -> int:
    """Write to every buffer of the partition without yielding to other tasks."""
    number = 0
    while partition.availability.available:
        put(partition, 0, b"\xff" * 256)
        number += 1
    return number


# -- how it ends -----------------------------------------------------------------------------------


async def test_a_consumer_may_leave_while_its_producer_goes_on_sending() -> None:
    """The producer learns that it was cancelled, not that a connection broke."""
    for _ in range(5):
        config = quick(segment_bytes=32_768, network_memory_bytes=8 * 2**20)
        async with NetworkEnvironment(config=config) as producer:
            partition = producer.create_result_partition("p", subpartitions=1)
            writer = producer.create_record_writer(partition)
            async with (
                NetworkEnvironment(config=config) as consumer,
                consumer.open_reader(producer.address, "p") as reader,
            ):
                writing = asyncio.create_task(fill(writer))
                for _ in range(20):
                    assert await reader.next_batch() is not None
            with pytest.raises(ConsumerCancelledError):
                await writing
            writer.close()
            await assert_nothing_is_held(producer)


def test_a_peer_that_has_closed_first_does_not_upset_a_goodbye() -> None:
    """This needs asyncio's own loop. The goodbye is answered with a reset."""

    async def leave() -> list[dict[str, Any]]:
        upset: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: upset.append(context))
        async with (
            contextlib.AsyncExitStack() as strangers,
            NetworkEnvironment(config=quick()) as environment,
        ):
            stranger = await strangers.enter_async_context(Stranger.meet(environment))
            await until(lambda: peers(environment).established == 1)
            stranger.writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        return upset

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        assert runner.run(leave()) == []


async def test_a_producer_may_leave_as_soon_as_all_is_acknowledged() -> None:
    """Its consumer has received everything, but is busy with another producer and has not polled
    yet."""
    async with (
        NetworkEnvironment(config=quick()) as consumer,
        NetworkEnvironment(config=quick()) as other,
    ):
        producer = NetworkEnvironment(config=quick())
        await producer.__aenter__()
        leaving = producer.create_record_writer(
            producer.create_result_partition("p", subpartitions=1)
        )
        staying = other.create_record_writer(other.create_result_partition("p", subpartitions=1))
        locations = [
            PartitionLocation(environment.address, "p", 0) for environment in (producer, other)
        ]
        reader = consumer.create_record_reader(consumer.create_input_gate(locations))
        await leaving.emit("last words")
        batch = await reader.next_batch()
        assert batch is not None
        assert list(batch) == ["last words"]
        await staying.emit(1)
        held = await reader.next_batch()
        assert held is not None
        finishing = asyncio.create_task(leaving.finish())
        await until(lambda: queued(consumer)[0] == 1)
        await staying.emit(2)
        await until(lambda: queued(consumer) == [1, 1])
        held = await reader.next_batch()  # acknowledges the first, and is busy with the other again
        assert held is not None
        await finishing
        await producer.__aexit__(None, None, None)
        await until(lambda: peers(consumer).established == 1)
        assert queued(consumer) == [1, 0]
        ending = asyncio.create_task(staying.finish())
        assert await reader.next_batch() is None
        await ending
        reader.close()


def queued(environment: NetworkEnvironment) -> list[int]:
    """Return the number of buffers and events that wait in each channel of the only gate."""
    [gate] = environment.statistics().gates
    return [channel.queued_buffers for channel in gate.channels]


@pytest.mark.parametrize("turns", range(4))
async def test_both_may_leave_at_once(turns: int) -> None:
    one, other = NetworkEnvironment(config=quick()), NetworkEnvironment(config=quick())
    await one.__aenter__()
    await other.__aenter__()
    for environment, peer in ((one, other), (other, one)):
        environment.create_result_partition("p", subpartitions=1)
        environment.create_input_gate([PartitionLocation(peer.address, "p", 0)])
    await until(lambda: peers(one).established == peers(other).established == 1)
    leaving = asyncio.create_task(one.__aexit__(None, None, None))
    for _ in range(turns):
        await asyncio.sleep(0)
    await other.__aexit__(None, None, None)
    await leaving


@pytest.mark.parametrize("answer", ["goodbye", "close"])
async def test_leaving_says_goodbye_and_reads_on_until_the_peer_answers(answer: str) -> None:
    """SPEC 7."""
    async with contextlib.AsyncExitStack() as stack:
        environment = NetworkEnvironment(config=quick())
        await environment.__aenter__()
        environment.create_result_partition("p", subpartitions=1)
        stranger = await stack.enter_async_context(Stranger.meet(environment))
        leaving = asyncio.create_task(environment.__aexit__(None, None, None))
        assert await stranger.read_messages(1) == [(M.CLOSE_REQUEST,)]
        for channel in range(2_000):
            stranger.send(partition_request(channel))
        await stranger.writer.drain()
        assert not leaving.done()
        assert not stranger.reader.at_eof()
        if answer == "goodbye":
            stranger.send(CLOSE_REQUEST)
            assert await stranger.read_to_end() == b""
        else:
            await stranger.close()
        await leaving


@pytest.mark.parametrize("ends_its_half", [False, True])
async def test_a_peer_that_leaves_is_answered_and_closed(ends_its_half: bool) -> None:
    """This includes a peer that ends its half of the stream behind its goodbye, which may cost it
    the answer."""
    async with NetworkEnvironment(config=quick()) as environment:
        environment.create_result_partition("p", subpartitions=1)
        async with Stranger.meet(environment) as stranger:
            for channel in range(2):  # the second one is refused: the first has it
                stranger.send(partition_request(channel, P, credit=1))
            stranger.send(CLOSE_REQUEST)
            if ends_its_half:
                stranger.writer.write_eof()
            told = messages(await stranger.read_to_end())
            kinds = [message[0] for message in told]
            assert kinds == [M.ERROR_RESPONSE, M.CLOSE_REQUEST] or (ends_its_half and not kinds)
        assert peers(environment).established == 0


async def test_a_goodbye_is_answered_behind_all_that_a_slow_peer_has_asked_for() -> None:
    """Its socket takes the answer long after its goodbye has come."""
    config = quick(
        segment_bytes=32_768, network_memory_bytes=32 * 2**20, buffers_per_subpartition_max=900
    )
    async with NetworkEnvironment(config=config) as environment:
        partition = environment.create_result_partition("p", subpartitions=8)
        writer = environment.create_record_writer(partition, RebalancePartitioner())
        async with Stranger.meet(environment, receive_buffer_bytes=4096) as stranger:
            stranger.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for channel in range(8):
                stranger.send(partition_request(channel, P, channel, credit=60_000))
            writing = asyncio.create_task(fill(writer))
            await until(lambda: is_stuck(environment))
            writing.cancel()
            await asyncio.wait([writing])
            sent = environment.statistics().connections[0].buffers_out
            stranger.send(CLOSE_REQUEST)
            stranger.writer.transport.resume_reading()  # type: ignore[attr-defined]
            *data, last = messages(await stranger.read_to_end())
            assert {message[0] for message in data} == {M.BUFFER_RESPONSE}
            assert len(data) > sent
            assert last == (M.CLOSE_REQUEST,)
        writer.close()


async def test_leaving_does_not_wait_for_ever_for_a_peer_that_stays() -> None:
    environment = NetworkEnvironment(config=quick(close_timeout_ms=20.0))
    await environment.__aenter__()
    async with Stranger.meet(environment) as stranger:
        await environment.__aexit__(None, None, None)
        assert await stranger.read_to_end() == CLOSE_REQUEST


async def test_a_cancelled_leave_cuts_the_connections_off() -> None:
    environment = NetworkEnvironment(config=quick(close_timeout_ms=60_000.0))
    await environment.__aenter__()
    async with Stranger.meet(environment) as stranger:
        leaving = asyncio.create_task(environment.__aexit__(None, None, None))
        await stranger.reader.read(100)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await stranger.read_to_end() == b""


async def test_leaving_after_an_error_tells_the_consumers() -> None:
    producer = NetworkEnvironment(config=quick())
    async with NetworkEnvironment(config=quick()) as consumer:
        await producer.__aenter__()
        producer.create_result_partition("p", subpartitions=1)
        gate = consumer.create_input_gate([PartitionLocation(producer.address, "p", 0)])
        await until(lambda: peers(producer).established == 1)
        await until(lambda: len(producer.statistics().connections[0].readers) == 1)
        await producer.__aexit__(ValueError, ValueError("boom"), None)
        with pytest.raises(ProducerFailedError, match=r": the producer failed: ValueError: boom$"):
            await consumer.create_record_reader(gate).next_batch()
        gate.release()
        await assert_nothing_is_held(consumer)


@pytest.mark.parametrize("cut", [1, 10, 23, 60])
@pytest.mark.parametrize("how", ["end", "reset"])
async def test_a_stream_cut_in_the_middle_of_a_message_is_a_loss(cut: int, how: str) -> None:
    """Reliability 7: FIN or RST inside a frame is never taken for the end of the data."""
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        gate = environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
        reader = environment.create_record_reader(gate)
        stranger = await host.accept()
        host.answer(stranger)
        await stranger.read_messages(1)
        stranger.send(buffer_response(0, body=bytes(50))[:cut])
        await stranger.writer.drain()
        if how == "end":
            stranger.writer.write_eof()
        else:
            await stranger.close()
        with pytest.raises(RemoteTransportError, match="was lost"):
            await reader.next_batch()
        reader.close()
        await assert_nothing_is_held(environment)


async def test_a_peer_that_shows_no_sign_of_life_is_cut_off() -> None:
    config = quick(
        heartbeat_interval_ms=10.0,
        heartbeat_timeout_ms=30.0,
        wire=WireLimits(heartbeats_per_minute_max=12_000),
    )
    async with Host() as host, NetworkEnvironment(config=config) as environment:
        gate = environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
        stranger = await host.accept()
        host.answer(stranger)
        await stranger.read_messages(1)
        with pytest.raises(RemoteTransportError, match="has sent nothing for"):
            await environment.create_record_reader(gate).next_batch()
        assert peers(environment).established == 0
        said = messages(await stranger.read_to_end())
        assert {message[0] for message in said} == {M.HEARTBEAT}
        gate.release()
        await assert_nothing_is_held(environment)


async def test_an_end_without_goodbye_is_a_loss() -> None:
    """F12: every channel of that connection gets the error."""
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        gates = [
            environment.create_input_gate([PartitionLocation(host.address, name, 0)])
            for name in ("p", "q")
        ]
        stranger = await host.accept()
        host.answer(stranger)
        await stranger.read_messages(2)
        stranger.writer.write_eof()
        for gate in gates:
            with pytest.raises(RemoteTransportError, match="the worker may be lost"):
                await environment.create_record_reader(gate).next_batch()
            gate.release()
        await assert_nothing_is_held(environment)


async def test_an_error_while_data_is_told_of_closes_the_connection() -> None:
    """F12: the error is a bug in the notified object.

    No channel of that connection waits forever.
    """
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        told: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
        gates = [
            environment.create_input_gate([PartitionLocation(host.address, name, 0)])
            for name in ("p", "q")
        ]
        stranger = await host.accept()
        host.answer(stranger)
        await stranger.read_messages(2)

        def fail() -> None:
            raise RuntimeError("a subscriber failed")

        gates[0].availability.subscribe(fail)
        stranger.writer.write(buffer_response())
        await until(lambda: peers(environment).lost_total == 1)
        for gate in gates:
            with pytest.raises(RemoteTransportError, match="a subscriber failed"):
                await environment.create_record_reader(gate).next_batch()
            gate.release()
        assert told == ["a subscriber failed"]
        await assert_nothing_is_held(environment)


async def test_a_peer_that_stops_sending_and_does_not_read_is_closed() -> None:
    """Half a stream is of no use, so the unsent bytes in the socket do not delay the close."""
    config = quick(
        segment_bytes=32_768, network_memory_bytes=32 * 2**20, buffers_per_subpartition_max=900
    )
    async with NetworkEnvironment(config=config) as environment:
        partition = environment.create_result_partition("p", subpartitions=8)
        writer = environment.create_record_writer(partition, RebalancePartitioner())
        async with Stranger.meet(environment, receive_buffer_bytes=4096) as stranger:
            for channel in range(8):
                stranger.send(partition_request(channel, P, channel, credit=60_000))
            writing = asyncio.create_task(fill(writer))
            await until(lambda: is_stuck(environment))
            stranger.writer.write_eof()
            with pytest.raises(RemoteTransportError):
                await writing
        writer.close()
        await assert_nothing_is_held(environment)


async def test_a_violation_of_the_producer_is_what_its_consumer_gets() -> None:
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        gate = environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
        stranger = await host.accept()
        host.answer(stranger)
        await stranger.read_messages(1)
        stranger.send(buffer_response(0, sequence=3))
        with pytest.raises(RemoteProtocolError, match="received buffer 3, expected 0"):
            await environment.create_record_reader(gate).next_batch()
        await stranger.close()
        gate.release()
        await assert_nothing_is_held(environment)


async def test_a_peer_that_refuses_the_last_messages_of_this_side_is_not_waited_for() -> None:
    """Each side has sent its last message then, so neither waits for the other to close."""
    environment = NetworkEnvironment(config=quick(close_timeout_ms=3_600_000.0))
    await environment.__aenter__()
    async with Stranger.meet(environment) as stranger:
        leaving = asyncio.create_task(environment.__aexit__(None, None, None))
        assert await stranger.read_messages(1) == [(M.CLOSE_REQUEST,)]
        stranger.send(error_response(CONNECTION_CHANNEL, 1, b"too many cancelled requests"))
        assert await stranger.read_to_end() == b""
        await leaving


async def test_a_connection_error_of_the_peer_is_not_answered() -> None:
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        gate = environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
        stranger = await host.accept()
        host.answer(stranger)
        await stranger.read_messages(1)
        stranger.send(error_response(CONNECTION_CHANNEL, 1, b"you broke it"))
        assert await stranger.read_to_end() == b""
        with pytest.raises(RemoteError, match="the peer closes the connection: you broke it"):
            await environment.create_record_reader(gate).next_batch()
        gate.release()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is acknowledged")
@pytest.mark.parametrize("event_loop", ["uvloop", "asyncio"])
def test_a_peer_whose_machine_cannot_be_reached_is_given_up(event_loop: str) -> None:
    """No heartbeat timeout is set, so a peer that is only silent stays."""
    config = quick(
        heartbeat_interval_ms=20.0,
        heartbeat_timeout_ms=0.0,
        unreachable_timeout_ms=300.0,
        wire=WireLimits(heartbeats_per_minute_max=6_000),
    )

    async def be_cut_off() -> None:
        async with (
            NetworkEnvironment(config=config) as environment,
            Stranger.meet(environment, worker_id="silent") as silent,
            Stranger.meet(environment, worker_id="cut off", address="127.0.0.1:8") as stranger,
        ):
            await until(lambda: peers(environment).established == 2)
            cut(stranger.writer.get_extra_info("socket"))
            await until(lambda: peers(environment).established == 1)
            [left] = environment.statistics().connections
            assert left.peer.startswith("silent"), left.peer
            silent.send(CLOSE_REQUEST)

    new_loop = asyncio.new_event_loop if event_loop == "asyncio" else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(be_cut_off())

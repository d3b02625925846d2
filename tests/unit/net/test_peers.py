"""Finding peers: one connection per pair, whoever dials, however often, under whatever name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flinknet.config import WireLimits
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import ConfigurationError, HandshakeError, RemoteTransportError
from flinknet.net.environment import NetworkEnvironment
from flinknet.wire.handshake import Verdict
from flinknet.wire.messages import MessageType
from tests.unit.net.stranger import (
    Host,
    Stranger,
    assert_nothing_is_held,
    free_port,
    hello_to,
    peers,
    quick,
    until,
)


async def produce(environment: NetworkEnvironment, name: str, records: list[int]) -> None:
    async with environment.open_writer(name) as writer:
        await writer.emit_many(records)


async def consume(environment: NetworkEnvironment, address: str, name: str) -> list[int]:
    async with environment.open_reader(address, name) as reader:
        return [record async for record in reader]


async def refusal_of(environment: NetworkEnvironment, address: str) -> HandshakeError:
    with pytest.raises(HandshakeError) as refused:
        await consume(environment, address, "p")
    return refused.value


# -- one connection --------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["a", "b"])
async def test_two_that_dial_each_other_at_once_get_one_connection(first: str) -> None:
    """F13: whoever has the smaller name, whoever begins."""
    for _ in range(5):
        async with (
            NetworkEnvironment(worker_id=first, config=quick()) as one,
            NetworkEnvironment(worker_id="b" if first == "a" else "a", config=quick()) as other,
        ):
            _, _, there, back = await asyncio.gather(
                produce(one, "there", [1]),
                produce(other, "back", [2]),
                consume(other, one.address, "there"),
                consume(one, other.address, "back"),
            )
            assert (there, back) == ([1], [2])
            for environment in (one, other):
                assert (peers(environment).established, peers(environment).pending) == (1, 0)
            assert peers(one).accepted_total + peers(other).accepted_total == 1


async def test_a_connection_that_came_before_the_refusal_is_used() -> None:
    """The peer accepted us nowhere, but has dialled us already."""
    async with Host() as host, NetworkEnvironment(worker_id="x", config=quick()) as environment:
        reading = asyncio.create_task(consume(environment, host.address, "p"))
        dialled = await host.accept()
        async with Stranger.meet(environment, worker_id="host", address=host.address) as arrived:
            assert arrived.hello is not None
            assert arrived.hello.verdict is Verdict.WELCOME
            host.answer(dialled, Verdict.DUPLICATE)
            [request] = await arrived.read_messages(1)
            assert request[0] is MessageType.PARTITION_REQUEST
            assert peers(environment).dialled_total == 1
            reading.cancel()
            await asyncio.wait([reading])


async def test_a_refused_dialler_waits_for_the_connection_of_the_other() -> None:
    async with (
        Host() as host,
        NetworkEnvironment(worker_id="x", config=quick(connect_backoff_ms=60_000.0)) as environment,
    ):
        reading = asyncio.create_task(consume(environment, host.address, "p"))
        dialled = await host.accept()
        host.answer(dialled, Verdict.DUPLICATE)
        await dialled.read_to_end()
        async with Stranger.meet(environment, worker_id="host", address=host.address) as arrived:
            [request] = await arrived.read_messages(1)
            assert request[0] is MessageType.PARTITION_REQUEST
            reading.cancel()
            await asyncio.wait([reading])


async def test_who_waits_for_the_other_takes_its_connection_whatever_the_names() -> None:
    """A worker that only waits between two tries has no dial of its own to prefer."""
    address = f"127.0.0.1:{free_port()}"
    config = quick(connect_backoff_ms=60_000.0)
    async with NetworkEnvironment(worker_id="a", config=config) as environment:
        reading = asyncio.create_task(consume(environment, address, "p"))
        await until(lambda: peers(environment).dialled_total == 1)
        for _ in range(50):  # the refusal of the one dial has to arrive
            await asyncio.sleep(0)
        async with Stranger.meet(environment, worker_id="z", address=address) as arrived:
            assert arrived.hello is not None
            assert arrived.hello.verdict is Verdict.WELCOME
            [request] = await arrived.read_messages(1)
            assert request[0] is MessageType.PARTITION_REQUEST
        reading.cancel()
        await asyncio.wait([reading])


async def test_many_that_need_a_peer_share_one_dial() -> None:
    """F13."""
    async with (
        NetworkEnvironment(config=quick()) as producer,
        NetworkEnvironment(config=quick()) as consumer,
    ):
        names = [f"p{number}" for number in range(8)]
        reading = [asyncio.create_task(consume(consumer, producer.address, name)) for name in names]
        await asyncio.gather(*[produce(producer, name, [1]) for name in names])
        assert await asyncio.gather(*reading) == [[1]] * 8
        assert peers(consumer).dialled_total == 1
        assert peers(producer).accepted_total == 1


async def test_a_peer_is_known_by_its_address_however_it_was_dialled() -> None:
    async with (
        NetworkEnvironment(config=quick()) as producer,
        NetworkEnvironment(config=quick()) as consumer,
    ):
        for name, host in (("p", "localhost"), ("q", "localhost"), ("r", "127.0.0.1")):
            address = producer.address.replace("127.0.0.1", host)
            _, records = await asyncio.gather(
                produce(producer, name, [1]), consume(consumer, address, name)
            )
            assert records == [1]
        assert peers(producer).accepted_total == 1


async def test_a_name_for_a_peer_that_has_dialled_us_finds_its_connection() -> None:
    """The refusal itself says under which address the peer is known."""
    async with (
        NetworkEnvironment(config=quick()) as one,
        NetworkEnvironment(config=quick()) as other,
    ):
        await asyncio.gather(produce(one, "p", [1]), consume(other, one.address, "p"))
        alias = other.address.replace("127.0.0.1", "localhost")
        _, records = await asyncio.gather(produce(other, "q", [2]), consume(one, alias, "q"))
        assert records == [2]
        assert (peers(one).established, peers(other).established) == (1, 1)


async def test_after_a_loss_the_next_request_dials_again() -> None:
    """F13."""
    async with NetworkEnvironment(config=quick()) as consumer:
        port = free_port()
        for number in range(2):
            async with NetworkEnvironment(port=port, config=quick()) as producer:
                _, records = await asyncio.gather(
                    produce(producer, "p", [number]), consume(consumer, producer.address, "p")
                )
                assert records == [number]
            await until(lambda: peers(consumer).established == 0)
        assert peers(consumer).dialled_total == 2


# -- connects that fail ----------------------------------------------------------------------------


async def test_a_refused_connect_is_tried_again() -> None:
    """F13: N tries, then success."""
    port = free_port()
    config = quick(connect_retries=12)
    async with NetworkEnvironment(config=config) as consumer:
        reading = asyncio.create_task(consume(consumer, f"127.0.0.1:{port}", "p"))
        await until(lambda: peers(consumer).dialled_total > 2)
        async with NetworkEnvironment(port=port, config=quick()) as producer:
            await produce(producer, "p", [1])
            assert await reading == [1]


async def test_a_connect_that_is_always_refused_fails_and_is_not_remembered() -> None:
    """F13: retries exhausted; the failure is not cached; nothing is left of it."""
    port = free_port()
    async with NetworkEnvironment(config=quick(connect_retries=2)) as environment:
        for tries in (3, 6):
            with pytest.raises(RemoteTransportError, match=r"cannot connect to .* in 3 tries"):
                await consume(environment, f"127.0.0.1:{port}", "p")
            assert peers(environment).dialled_total == tries
        assert peers(environment).pending == 0
        await assert_nothing_is_held(environment)


async def test_a_peer_that_does_not_answer_is_given_up() -> None:
    """The socket is closed as well, or it would be answered later."""
    async with Host() as host:
        config = quick(connect_timeout_ms=20.0)
        async with NetworkEnvironment(config=config) as environment:
            with pytest.raises(RemoteTransportError, match=r"took longer than 20 ms"):
                await consume(environment, host.address, "p")
            silent = await host.accept()
            assert await silent.read_to_end() == b""


async def test_a_peer_that_hangs_up_in_the_handshake_is_an_error() -> None:
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        reading = asyncio.create_task(consume(environment, host.address, "p"))
        await (await host.accept()).close()
        with pytest.raises(HandshakeError, match="closed the connection during the handshake"):
            await reading
        await assert_nothing_is_held(environment)


async def test_who_gives_up_does_not_stop_the_others() -> None:
    """A cancelled caller leaves the dial to those who share it."""
    config = quick(close_timeout_ms=20.0)
    async with Host() as host, NetworkEnvironment(config=config) as environment:
        locations = [PartitionLocation(host.address, "p", 0)]
        gates = [environment.create_input_gate(locations) for _ in range(3)]
        dialled = await host.accept()
        gates[0].release()
        gates[2].release()
        await asyncio.sleep(0)
        host.answer(dialled)
        [request] = await dialled.read_messages(1)
        assert request[:2] == (MessageType.PARTITION_REQUEST, 0)
        gates[1].release()


async def test_a_dial_that_nobody_needs_any_more_ends_with_the_environment() -> None:
    async with Host() as host:
        async with NetworkEnvironment(config=quick()) as environment:
            gate = environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
            dialled = await host.accept()
            gate.release()
        assert await dialled.read_to_end() == b""


async def test_leaving_stops_a_dial_that_waits_for_its_next_try() -> None:
    config = quick(connect_backoff_ms=60_000.0)
    async with NetworkEnvironment(config=config) as environment:
        location = PartitionLocation(f"127.0.0.1:{free_port()}", "p", 0)
        environment.create_input_gate([location])
        await until(lambda: peers(environment).dialled_total == 1)


# -- who may connect -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"job": "other"}, "serves job 'embedded', not 'other'"),
        ({"attempt": 1}, "is at attempt 0, not 1"),
        ({"config": quick(segment_bytes=2048)}, "segment_bytes is 1024 here, 2048 at the peer"),
        ({"worker_id": "producer"}, "both sides are called 'producer'"),
    ],
)
async def test_a_worker_of_something_else_is_refused_with_the_reason(
    options: dict[str, object], reason: str
) -> None:
    """Invariant I9: frames of another attempt are not even sent."""
    async with (
        NetworkEnvironment(worker_id="producer", config=quick()) as producer,
        NetworkEnvironment(**{"config": quick(), **options}) as consumer,  # type: ignore[arg-type]
    ):
        error = await refusal_of(consumer, producer.address)
        assert f"refused the connection: this worker {reason}" in str(error) or reason in str(error)
        assert (peers(producer).refused_total, peers(producer).established) == (1, 0)
        await assert_nothing_is_held(consumer)


async def test_dialling_oneself_by_another_name_is_refused() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        alias = environment.address.replace("127.0.0.1", "localhost")
        assert "both sides are called" in str(await refusal_of(environment, alias))


async def test_an_older_or_newer_peer_is_told_the_version() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        stranger = await Stranger.dial(environment.address)
        stranger.send(b"flinknet\x00\x01\x00\x40")
        answer = await stranger.expect_hello()
        assert answer.verdict is Verdict.VERSION
        assert await stranger.read_to_end() == b""
        await stranger.close()


async def test_an_answer_in_another_version_says_so() -> None:
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        refused = asyncio.create_task(refusal_of(environment, host.address))
        (await host.accept()).send(b"flinknet\x00\x07\x00\x40")
        assert "the peer speaks version 7 of the protocol, this side version 3" in str(
            await refused
        )


@pytest.mark.parametrize("field", ["job", "attempt", "segment_bytes", "worker_id"])
async def test_an_answer_from_another_worker_is_refused(field: str) -> None:
    """The dialling side judges as well."""
    other: dict[str, Any] = {"job": "o", "attempt": 7, "segment_bytes": 64, "worker_id": "consumer"}
    async with Host() as host, NetworkEnvironment(worker_id="consumer", config=quick()) as consumer:
        refused = asyncio.create_task(refusal_of(consumer, host.address))
        dialled = await host.accept()
        host.answer(dialled, **{field: other[field]})
        assert "answered as another worker" in str(await refused)
        assert await dialled.read_to_end() == b""


@pytest.mark.parametrize("verdict", [Verdict.HELLO, Verdict.IDENTITY, Verdict.VERSION])
async def test_every_other_verdict_is_a_refusal(verdict: Verdict) -> None:
    """HELLO among them: a peer that echoes what it gets is not one."""
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        refused = asyncio.create_task(refusal_of(environment, host.address))
        host.answer(await host.accept(), verdict, reason="because")
        assert "refused the connection: because" in str(await refused)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"\x00" * 5000,
        b"flinknet\x00\x03\xff\xff",
        b"flinknet\x00\x03\x00\x16" + bytes(22),
    ],
)
async def test_what_is_no_hello_is_closed_without_a_word(garbage: bytes) -> None:
    """Reliability 7: no oracle, no state, and everybody else goes on."""
    async with (
        NetworkEnvironment(config=quick()) as producer,
        NetworkEnvironment(config=quick()) as consumer,
    ):
        stranger = await Stranger.dial(producer.address)
        stranger.send(garbage)
        assert await stranger.read_to_end() == b""
        await stranger.close()
        _, records = await asyncio.gather(
            produce(producer, "p", [1]), consume(consumer, producer.address, "p")
        )
        assert records == [1]
        assert peers(producer).accepted_total == 1
        await assert_nothing_is_held(producer)


async def test_an_answer_to_nobody_is_no_hello() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        stranger = await Stranger.dial(environment.address)
        stranger.send(hello_to(environment, verdict=Verdict.WELCOME).encode())
        assert await stranger.read_to_end() == b""
        await stranger.close()


@pytest.mark.parametrize("said", [0, 1, 11, 12, 40])
async def test_who_does_not_say_who_it_is_in_time_is_closed(said: int) -> None:
    """Reliability 7: no bytes after connect, or one byte and then no more."""
    config = quick(wire=WireLimits(handshake_timeout_ms=20.0))
    async with NetworkEnvironment(config=config) as environment:
        stranger = await Stranger.dial(environment.address)
        stranger.send(hello_to(environment).encode()[:said])
        assert await stranger.read_to_end() == b""
        await stranger.close()


async def test_a_hello_may_come_byte_by_byte_with_messages_behind_it() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        stranger = await Stranger.dial(environment.address)
        for byte in hello_to(environment).encode():
            stranger.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await stranger.expect_hello()).verdict is Verdict.WELCOME
        partition.release()
        await stranger.close()


async def test_strangers_that_say_nothing_are_few() -> None:
    """Reliability 6: further ones are closed at once, and there is still room for who is quick."""
    config = quick(wire=WireLimits(pending_handshakes_max=3))
    async with NetworkEnvironment(config=config) as environment:
        strangers = [await Stranger.dial(environment.address) for _ in range(6)]
        await until(lambda: peers(environment).refused_total == 3)
        assert peers(environment).pending == 3
        for stranger in strangers[3:]:
            assert await stranger.read_to_end() == b""
        for stranger in strangers:
            await stranger.close()
        await until(lambda: peers(environment).pending == 0)
        async with Stranger.meet(environment) as good:
            assert good.hello is not None
            assert good.hello.verdict is Verdict.WELCOME


async def test_one_connection_more_than_may_be_accepted_is_refused_with_the_reason() -> None:
    """Those in handshake count; a refused one is no peer and does not stay."""
    config = quick(wire=WireLimits(accepted_connections_max=2))
    async with NetworkEnvironment(config=config) as environment:
        silent = await Stranger.dial(environment.address)
        await until(lambda: peers(environment).admitted == 1)
        async with Stranger.meet(environment, worker_id="first", address="127.0.0.1:1"):
            assert (peers(environment).established, peers(environment).pending) == (1, 1)
            async with Stranger.meet(environment, worker_id="more", address="127.0.0.1:2") as more:
                assert more.hello is not None
                assert more.hello.verdict is Verdict.FULL
                assert "accepted 2 connections" in more.hello.reason
                assert "accepted_connections_max" in more.hello.reason
                assert await more.read_to_end() == b""
            assert (peers(environment).admitted, peers(environment).refused_total) == (2, 1)
            assert peers(environment).established == 1
        await silent.close()
        await until(lambda: peers(environment).admitted == 0)


async def test_peers_that_come_and_go_leave_room_for_others() -> None:
    """Whether they were welcome, refused, cut off in the handshake or never said a word."""
    config = quick(wire=WireLimits(accepted_connections_max=1))
    async with NetworkEnvironment(config=config) as environment:
        for number in range(3):
            async with Stranger.meet(environment, worker_id=f"worker {number}") as welcome:
                assert welcome.hello is not None
                assert welcome.hello.verdict is Verdict.WELCOME
            await until(lambda: peers(environment).admitted == 0)
            async with Stranger.meet(environment, job="other") as refused:
                await refused.read_to_end()
            garbage = await Stranger.dial(environment.address)
            garbage.send(b"GET / HTTP/1.1")
            await garbage.read_to_end()
            await garbage.close()
            silent = await Stranger.dial(environment.address)
            await until(lambda: peers(environment).admitted == 1)
            await silent.close()
            await until(lambda: peers(environment).admitted == 0)


async def test_who_came_too_early_is_welcome_if_there_is_room_when_it_says_hello() -> None:
    config = quick(wire=WireLimits(accepted_connections_max=1))
    async with NetworkEnvironment(config=config) as environment:
        async with Stranger.meet(environment):
            early = await Stranger.dial(environment.address)
            await until(lambda: peers(environment).pending == 1)
        await until(lambda: peers(environment).admitted == 0)
        early.send(hello_to(environment, worker_id="early").encode())
        assert (await early.expect_hello()).verdict is Verdict.WELCOME
        assert peers(environment).admitted == 1
        await early.close()


async def test_a_worker_that_finds_another_one_full_tries_again_and_says_why() -> None:
    config = quick(wire=WireLimits(accepted_connections_max=1), connect_retries=1)
    async with NetworkEnvironment(config=config) as full, NetworkEnvironment(config=config) as late:
        producing = asyncio.create_task(produce(full, "p", [1]))
        async with Stranger.meet(full):
            with pytest.raises(RemoteTransportError, match="accepted 1 connections") as refused:
                await consume(late, full.address, "p")
            assert "in 2 tries" in str(refused.value)
            assert isinstance(refused.value.__cause__, HandshakeError)
            assert peers(full).refused_total == 2
        await until(lambda: peers(full).admitted == 0)
        assert await consume(late, full.address, "p") == [1]
        await producing


async def test_connections_that_a_worker_makes_itself_are_not_accepted_ones() -> None:
    config = quick(wire=WireLimits(accepted_connections_max=1))
    async with NetworkEnvironment(config=config) as environment:
        environments = [NetworkEnvironment(config=config) for _ in range(3)]
        for one in environments:
            await one.__aenter__()
        for one in environments:
            producing = asyncio.create_task(produce(one, "p", [1]))
            assert await consume(environment, one.address, "p") == [1]
            await producing
        assert (peers(environment).established, peers(environment).admitted) == (3, 0)
        for one in environments:
            await one.__aexit__(None, None, None)


async def test_the_longest_names_in_the_widest_letters_are_refused_with_care() -> None:
    """The reason quotes them; it must not be able to break the answer."""
    async with (
        NetworkEnvironment(job="𝄞" * 25, config=quick()) as environment,
        Stranger.meet(environment, job="𝄢" * 25) as stranger,
    ):
        assert stranger.hello is not None
        assert stranger.hello.verdict is Verdict.IDENTITY
        assert await stranger.read_to_end() == b""


@pytest.mark.parametrize("options", [{"job": "j" * 101}, {"worker_id": "w" * 101}, {"attempt": -1}])
async def test_names_that_no_hello_can_carry_are_refused_at_the_start(
    options: dict[str, object],
) -> None:
    with pytest.raises(ConfigurationError):
        async with NetworkEnvironment(config=quick(), **options):  # type: ignore[arg-type]
            pytest.fail("it started")


async def test_a_port_in_use_is_refused_at_the_start() -> None:
    """The numbers are in the message, and nothing is left open."""
    async with Host() as host:
        port = int(host.address.rpartition(":")[2])
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with NetworkEnvironment(port=port, config=quick()):
                pytest.fail("it started")

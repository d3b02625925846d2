"""Finding peers: one connection per pair, for any number of dials by either side under any name."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from flinknet.config import WireLimits
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import (
    ConfigurationError,
    CorruptedDataError,
    ErrorCode,
    HandshakeError,
    PartitionRequestTimeoutError,
    RemoteTransportError,
)
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.peer_protocol import PeerProtocol
from flinknet.net.peers import PeerDirectory
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.wire.checksum import seal
from flinknet.wire.codec import encode
from flinknet.wire.handshake_messages import (
    Answer,
    Challenge,
    Hello,
    Opening,
    Refusal,
    Verdict,
    WorkerIdentity,
)
from flinknet.wire.messages import MessageType
from tests.free_port import free_port
from tests.unit.connection.joined import messages
from tests.unit.net.stranger import (
    NONCE,
    Host,
    Stranger,
    assert_nothing_is_held,
    identity_for,
    peers,
    quick,
    until,
)
from tests.unit.wire.received import buffer_response, partition_request


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
    """F13: neither the order of the names nor the order of the dials matters."""
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
    """The peer answered this side's dial with DUPLICATE, and its own dial has arrived already."""
    async with Host() as host, NetworkEnvironment(worker_id="x", config=quick()) as environment:
        reading = asyncio.create_task(consume(environment, host.address, "p"))
        dialled = await host.accept()
        async with Stranger.meet(environment, worker_id="host", address=host.address) as arrived:
            assert arrived.verdict is Verdict.WELCOME
            host.answer(dialled, Verdict.DUPLICATE)
            arrived.send(encode(MessageType.HEARTBEAT))  # it is used once it has sent a message
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
            arrived.send(encode(MessageType.HEARTBEAT))  # it is used once it has sent a message
            [request] = await arrived.read_messages(1)
            assert request[0] is MessageType.PARTITION_REQUEST
            reading.cancel()
            await asyncio.wait([reading])


@pytest.mark.parametrize("begins", ["before", "after"])
async def test_a_connection_that_its_dialler_has_given_up_fails_no_channel(begins: str) -> None:
    """The dialler or this side was held up, so the answer came too late and only this side has a
    connection. Consumers that began to wait before or after this request their channels anew."""
    async with Host() as host, NetworkEnvironment(worker_id="x", config=quick()) as environment:

        def begin() -> asyncio.Task[list[int]]:
            return asyncio.create_task(consume(environment, host.address, "p"))

        reading = begin() if begins == "before" else None
        refused = await host.accept() if reading is not None else None
        async with Stranger.meet(environment, worker_id="host", address=host.address) as gone:
            assert gone.verdict is Verdict.WELCOME
            if refused is not None:
                host.answer(refused, Verdict.DUPLICATE)
                await refused.read_to_end()
            if reading is None:
                reading = begin()
                await asyncio.sleep(0.01)  # it must not request over this connection
        dialled = await host.accept()
        host.answer(dialled)
        [request] = await dialled.read_messages(1)
        assert request[0] is MessageType.PARTITION_REQUEST
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])
        await dialled.close()


async def test_a_waiting_worker_takes_the_peers_connection_for_any_names() -> None:
    """A worker that only waits between two tries has no dial of its own to prefer."""
    address = f"127.0.0.1:{free_port()}"
    config = quick(connect_backoff_ms=60_000.0)
    async with NetworkEnvironment(worker_id="a", config=config) as environment:
        reading = asyncio.create_task(consume(environment, address, "p"))
        await until(lambda: peers(environment).dialled_total == 1)
        for _ in range(50):  # the refusal of the first dial has to arrive
            await asyncio.sleep(0)
        async with Stranger.meet(environment, worker_id="z", address=address) as arrived:
            assert arrived.verdict is Verdict.WELCOME
            arrived.send(encode(MessageType.HEARTBEAT))  # it is used once it has sent a message
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
    """The refusal tells the address under which the peer is known."""
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
    config = quick(connect_backoff_max_ms=1.0)
    async with NetworkEnvironment(config=config) as consumer:
        reading = asyncio.create_task(consume(consumer, f"127.0.0.1:{port}", "p"))
        await until(lambda: peers(consumer).dialled_total > 2)
        async with NetworkEnvironment(port=port, config=quick()) as producer:
            await produce(producer, "p", [1])
            assert await reading == [1]


async def test_a_connect_that_is_always_refused_fails_and_is_not_remembered() -> None:
    """F13: it fails at the deadline, the failure is not cached, and nothing is left of it."""
    port = free_port()
    config = quick(rendezvous_timeout_ms=500.0, connect_backoff_max_ms=1.0)
    async with NetworkEnvironment(config=config) as environment:
        for _ in range(2):
            before = peers(environment).dialled_total
            with pytest.raises(RemoteTransportError, match=r"cannot connect .*rendezvous_timeout"):
                await consume(environment, f"127.0.0.1:{port}", "p")
            assert peers(environment).dialled_total > before + 1
        assert peers(environment).pending == 0
        await assert_nothing_is_held(environment)


async def test_a_peer_that_does_not_answer_is_given_up() -> None:
    """Its socket is closed as well, as it might be answered later."""
    async with Host() as host:
        config = quick(connect_timeout_ms=20.0, rendezvous_timeout_ms=500.0)
        async with NetworkEnvironment(config=config) as environment:
            with pytest.raises(RemoteTransportError, match=r"took longer than 20 ms"):
                await consume(environment, host.address, "p")
            silent = await host.connected()
            assert isinstance(await silent.hear(), Opening)
            assert await silent.read_to_end() == b""


async def test_a_peer_that_hangs_up_in_the_handshake_is_dialled_again() -> None:
    """A proxy does this while its worker has not started.

    The final error tells that the peer hung up.
    """
    config = quick(rendezvous_timeout_ms=1_000.0)
    async with Host() as host, NetworkEnvironment(config=config) as environment:
        hanging_up = asyncio.create_task(hang_up_on_all(host))
        with pytest.raises(RemoteTransportError, match="closed the connection during") as raised:
            await consume(environment, host.address, "p")
        assert isinstance(raised.value.__cause__, HandshakeError)
        assert peers(environment).dialled_total > 1
        hanging_up.cancel()
        await asyncio.wait([hanging_up])
        await assert_nothing_is_held(environment)


async def hang_up_on_all(host: Host) -> None:
    while True:
        await (await host.connected()).close()


async def test_a_cancelled_caller_does_not_stop_the_others() -> None:
    """A cancelled caller leaves the dial to the others that share it."""
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


async def test_a_dial_without_waiters_ends_with_the_environment() -> None:
    async with Host() as host:
        async with NetworkEnvironment(config=quick()) as environment:
            gate = environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
            dialled = await host.accept()
            gate.release()
        assert await dialled.read_to_end() == b""


async def test_leaving_says_goodbye_on_a_connection_that_its_dialler_has_not_seen_yet() -> None:
    async with Host() as host:
        async with NetworkEnvironment(config=quick()) as environment:
            environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
            dialled = await host.accept()
            reading = asyncio.create_task(dialled.read_messages(1))
            reading.add_done_callback(lambda _: dialled.writer.close())
            host.answer(dialled)
            await until(lambda: peers(environment).established == 1)
        assert await reading == [(MessageType.CLOSE_REQUEST,)]


async def test_leaving_stops_a_dial_that_waits_for_its_next_try() -> None:
    config = quick(connect_backoff_ms=60_000.0)
    async with NetworkEnvironment(config=config) as environment:
        location = PartitionLocation(f"127.0.0.1:{free_port()}", "p", 0)
        environment.create_input_gate([location])
        await until(lambda: peers(environment).dialled_total == 1)


# -- admission -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"job": "other"}, "serves job 'embedded', not 'other'"),
        ({"attempt": 1}, "is at attempt 0, not 1"),
        ({"config": quick(segment_bytes=2048)}, "segment_bytes is 1024 here, 2048 at the peer"),
        ({"worker_id": "producer"}, "both sides have the worker id 'producer'"),
    ],
)
async def test_a_worker_of_something_else_is_refused_with_the_reason(
    options: dict[str, object], reason: str
) -> None:
    """Invariant I9: no frame of another attempt is ever sent."""
    async with (
        NetworkEnvironment(worker_id="producer", config=quick()) as producer,
        NetworkEnvironment(**{"config": quick(), **options}) as consumer,  # type: ignore[arg-type]
    ):
        error = await refusal_of(consumer, producer.address)
        assert f"refused the connection: this worker {reason}" in str(error) or reason in str(error)
        assert (peers(producer).refused, peers(producer).established) == ((("identity", 1),), 0)
        await assert_nothing_is_held(consumer)


async def test_dialling_oneself_by_another_name_is_refused() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        alias = environment.address.replace("127.0.0.1", "localhost")
        assert "both sides have the worker id" in str(await refusal_of(environment, alias))


@pytest.mark.parametrize("length", [0, 20, 64, 65_535])
async def test_another_version_is_told_the_version_whatever_its_length(length: int) -> None:
    """It is told so even if it has sent many bytes by then, which are discarded."""
    async with NetworkEnvironment(secret="secret", config=quick()) as environment:
        stranger = await Stranger.dial(environment.address)
        stranger.send(b"flinknet\x00\x03" + length.to_bytes(2, "big") + bytes(length))
        assert await stranger.expect_verdict() is Verdict.VERSION
        assert (peers(environment).refused, peers(environment).pending) == ((("version", 1),), 0)
        await stranger.close()


async def test_an_answer_in_another_version_says_so() -> None:
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        refused = asyncio.create_task(refusal_of(environment, host.address))
        (await host.connected()).send(b"flinknet\x00\x07\x00\x40")
        assert "the peer speaks version 7 of the protocol, this side version 5" in str(
            await refused
        )


@pytest.mark.parametrize("field", ["job", "attempt", "segment_bytes", "worker_id"])
async def test_an_answer_from_another_worker_is_refused(field: str) -> None:
    """The dialling side checks the identity as well."""
    other: dict[str, Any] = {"job": "o", "attempt": 7, "segment_bytes": 64, "worker_id": "consumer"}
    async with Host() as host, NetworkEnvironment(worker_id="consumer", config=quick()) as consumer:
        refused = asyncio.create_task(refusal_of(consumer, host.address))
        dialled = await host.accept()
        host.answer(dialled, **{field: other[field]})
        assert "answered as another worker" in str(await refused)
        assert await dialled.read_to_end() == b""


async def test_a_refusal_to_a_peer_says_why() -> None:
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        refused = asyncio.create_task(refusal_of(environment, host.address))
        host.answer(await host.accept(), Verdict.IDENTITY, "because")
        assert "refused the connection: because" in str(await refused)


async def test_a_peer_that_echoes_what_it_gets_is_none() -> None:
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        refused = asyncio.create_task(refusal_of(environment, host.address))
        dialled = await host.connected()
        opening = await dialled.reader.readexactly(32)
        dialled.send(opening)
        assert "sent Opening out of turn" in str(await refused)
        assert await dialled.read_to_end() == b""


# -- the secret ------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["secret", b"\x00\xff" * 20, "pass wörd"])
async def test_workers_that_know_the_same_secret_connect(secret: str | bytes) -> None:
    async with (
        NetworkEnvironment(secret=secret, config=quick()) as producer,
        NetworkEnvironment(secret=secret, config=quick()) as consumer,
    ):
        _, records = await asyncio.gather(
            produce(producer, "p", [1]), consume(consumer, producer.address, "p")
        )
        assert records == [1]


@pytest.mark.parametrize(
    ("one", "other"), [("sesame", "another"), ("sesame", None), (None, "sesame")]
)
async def test_workers_with_different_secrets_do_not_connect_and_say_nothing(
    one: str | None, other: str | None
) -> None:
    """This holds on loopback as well. The dialling side's error says how to fix it."""
    async with (
        NetworkEnvironment(secret=one, config=quick()) as producer,
        NetworkEnvironment(secret=other, config=quick()) as consumer,
    ):
        error = await refusal_of(consumer, producer.address)
        assert "does not prove that it knows the secret of this side" in str(error)
        assert "sesame" not in str(error)
        assert (peers(producer).established, peers(consumer).established) == (0, 0)


async def test_a_stranger_without_the_secret_learns_nothing_of_the_job() -> None:
    """It learns neither the worker's name, nor the job's, nor the reason of the refusal."""
    async with NetworkEnvironment(
        worker_id="the worker", job="the job", secret="secret", config=quick()
    ) as environment:
        for identity in (
            identity_for(environment, job="the job"),
            identity_for(environment, job="another job"),
        ):
            stranger = await Stranger.dial(environment.address)
            stranger.say(Opening(NONCE).encode())
            challenge = await stranger.reader.readexactly(12 + 54)
            stranger.transcript += challenge
            stranger.say(Hello.encode(identity, b"a guess", stranger.transcript))
            answer = await stranger.reader.read(4096)
            assert answer == Refusal(Verdict.REFUSED).encode()
            for told in (b"the worker", b"the job", environment.address.encode()):
                assert told not in challenge + answer
            await stranger.close()
        assert peers(environment).established == 0


async def test_a_dialler_sends_its_identity_only_to_peers_with_the_secret() -> None:
    async with (
        Host(b"a guess") as host,
        NetworkEnvironment(worker_id="x", secret="secret", config=quick()) as environment,
    ):
        refused = asyncio.create_task(refusal_of(environment, host.address))
        dialled = await host.connected()
        assert isinstance(await dialled.hear(), Opening)
        dialled.say(Challenge.encode(NONCE, b"a guess", dialled.transcript))
        assert await dialled.read_to_end() == b""
        assert "does not prove" in str(await refused)


async def test_a_recorded_handshake_cannot_be_replayed() -> None:
    """Both nonces are new in each handshake, so a recorded proof proves nothing."""
    async with NetworkEnvironment(secret="secret", config=quick()) as environment:
        said = Opening(NONCE).encode()
        recorded = await Stranger.dial(environment.address, secret=b"secret")
        assert await recorded.introduce(identity_for(environment)) is Verdict.WELCOME
        hello = recorded.hello
        await recorded.close()
        await until(lambda: peers(environment).established == 0)
        replayed = await Stranger.dial(environment.address, secret=b"secret")
        replayed.say(said)
        await replayed.expect_challenge()
        replayed.say(hello)
        assert await replayed.expect_verdict() is Verdict.REFUSED
        await replayed.close()


async def test_the_secret_is_in_no_repr_and_an_empty_one_is_refused() -> None:
    environment = NetworkEnvironment(secret="very secret", config=quick())
    assert "very secret" not in repr(environment)
    for empty in ("", b""):
        with pytest.raises(ConfigurationError, match="the secret is empty"):
            NetworkEnvironment(secret=empty)


# -- peers without an address, and known ones ------------------------------------------------------


async def test_peers_that_do_not_listen_are_known_by_their_names() -> None:
    """Their addresses are empty, which does not make them the same peer."""
    async with NetworkEnvironment(config=quick()) as environment:
        partition = environment.create_result_partition("p", subpartitions=2)
        async with (
            Stranger.meet(environment, worker_id="one", address="") as one,
            Stranger.meet(environment, worker_id="two", address="") as two,
            Stranger.meet(environment, worker_id="one", address="") as again,
        ):
            assert (one.verdict, two.verdict) == (Verdict.WELCOME, Verdict.WELCOME)
            assert again.verdict is Verdict.DUPLICATE
            assert peers(environment).established == 2
        partition.release()


async def test_a_welcome_from_a_worker_that_is_connected_already_is_taken() -> None:
    """It was dialled by another name of its address.

    Earlier requests keep the older connection, and new ones use the newer.
    """
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        location = PartitionLocation(host.address, "p", 0)
        gate = environment.create_input_gate([location])
        first = await host.accept()
        host.answer(first)
        assert (await first.read_messages(1))[0][0] is MessageType.PARTITION_REQUEST
        alias = host.address.replace("127.0.0.1", "localhost")
        other = environment.create_input_gate([PartitionLocation(alias, "q", 0)])
        second = await host.accept()
        host.answer(second)
        assert (await second.read_messages(1))[0][0] is MessageType.PARTITION_REQUEST
        assert len(environment.statistics().connections) == 2
        gate.release()
        assert (await first.read_messages(1))[0][0] is MessageType.CANCEL_PARTITION_REQUEST
        other.release()
        await second.close()
        await first.close()


# -- named consumers -------------------------------------------------------------------------------


async def test_a_peer_that_was_not_named_hears_of_no_partition() -> None:
    """It knows the secret and the partition's name, and asks first.

    Its answer is that of a partition that does not exist.
    """
    config = quick(rendezvous_timeout_ms=30.0)
    async with (
        NetworkEnvironment(secret="secret", config=config) as producer,
        NetworkEnvironment(secret="secret", worker_id="named", config=quick()) as named,
        NetworkEnvironment(secret="secret", worker_id="other", config=quick()) as other,
    ):
        partition = producer.create_result_partition("first", subpartitions=1, consumers=["named"])
        writer = producer.create_record_writer(partition)
        await writer.emit(1)
        told = []
        for name in ("first", "there is no such"):
            with pytest.raises(PartitionRequestTimeoutError) as refused:
                await consume(other, producer.address, name)
            told.append(str(refused.value).replace(name, "NAME"))
        assert told[0] == told[1]
        _, records = await asyncio.gather(
            writer.finish(), consume(named, producer.address, "first")
        )
        assert records == [1]
        writer.close()


async def test_a_worker_may_consume_its_own_partition_if_it_was_named() -> None:
    async with NetworkEnvironment(worker_id="self", config=quick()) as environment:
        async with environment.open_writer("p", consumers=["self"]) as writer:
            reading = asyncio.create_task(consume(environment, environment.address, "p"))
            await writer.emit(1)
        assert await reading == [1]


async def test_every_subpartition_has_its_consumer_or_none_has() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        with pytest.raises(ConfigurationError, match="2 subpartitions and 1 consumers"):
            environment.create_result_partition("p", subpartitions=2, consumers=["one"])
        await assert_nothing_is_held(environment)


# -- checksums -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checksums", "is_loopback", "asks"),
    [
        ("auto", True, False),
        ("auto", False, True),
        ("on", True, True),
        ("on", False, True),
        ("off", True, False),
        ("off", False, False),
    ],
)
async def test_checksums_are_asked_for_beyond_loopback_unless_told_otherwise(
    checksums: str, is_loopback: bool, asks: bool
) -> None:
    identity = WorkerIdentity("w", "127.0.0.1:9", "embedded", 0, 1024)
    loop = asyncio.get_running_loop()
    directory = PeerDirectory(
        identity, PartitionRegistry(1.0), quick(checksums=checksums), loop, b""
    )
    protocol = directory.accept()
    assert isinstance(protocol, PeerProtocol)
    protocol.is_loopback = is_loopback
    assert directory.begin_handshake(protocol).checksums is asks


async def test_one_side_that_asks_for_checksums_is_enough() -> None:
    for one, other in (("on", "off"), ("off", "on")):
        async with (
            NetworkEnvironment(config=quick(checksums=one)) as producer,
            NetworkEnvironment(config=quick(checksums=other)) as consumer,
        ):
            _, records = await asyncio.gather(
                produce(producer, "p", [1, 2]), consume(consumer, producer.address, "p")
            )
            assert records == [1, 2]


async def test_with_checksums_every_message_is_followed_by_one() -> None:
    """The peer has asked for them; on loopback this side would not."""
    async with NetworkEnvironment(config=quick()) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        writer = environment.create_record_writer(partition, buffer_timeout_ms=0)
        async with Stranger.meet(environment, checksums=True) as stranger:
            assert stranger.identity is not None
            assert not stranger.identity.checksums
            stranger.send(seal(partition_request(0, wire_partition_id("p"))))
            await writer.emit(7)
            data = buffer_response(0, body=b"\x07", records=1)
            assert await stranger.reader.readexactly(len(data) + 5) == seal(data)
            stranger.send(b"\x91\x0c\xce\0\0\0\0")
            last = await stranger.reader.read(4096)
            [(kind, _, code, text)] = messages(last[:-5])
            assert (kind, code) == (MessageType.ERROR_RESPONSE, ErrorCode.CORRUPTED)
            assert "checksum" in text
            assert last == seal(last[:-5])
        with pytest.raises(CorruptedDataError, match="it was damaged on its way"):
            while True:
                await writer.emit(7)
        writer.close()
        await assert_nothing_is_held(environment)


# -- strangers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"\x00" * 5000,
        b"flinknet\x00\x05\xff\xff",
        b"flinknet\x00\x05\x00\x16" + bytes(22),
    ],
)
async def test_bytes_other_than_a_hello_are_closed_without_an_answer(garbage: bytes) -> None:
    """Reliability 7: the bytes get no answer and leave no state, and all other peers go on."""
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


@pytest.mark.parametrize(
    "message",
    [
        Refusal(Verdict.FULL).encode(),
        Challenge.encode(bytes(16), b"", b""),
        Hello.encode(WorkerIdentity("w", "", "embedded", 0, 1024), b"", b""),
        Answer.encode(Verdict.WELCOME, WorkerIdentity("w", "", "embedded", 0, 1024), "", b"", b""),
    ],
    ids=["refusal", "challenge", "hello", "answer"],
)
async def test_a_message_out_of_turn_is_closed_without_a_word(message: bytes) -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        stranger = await Stranger.dial(environment.address)
        stranger.send(message)
        assert await stranger.read_to_end() == b""
        await stranger.close()


@pytest.mark.parametrize("said", [0, 1, 11, 12, 31, 32])
async def test_a_peer_without_a_hello_in_time_is_closed(said: int) -> None:
    """Reliability 7: no bytes after the connect, a single byte, or no hello."""
    config = quick(wire=WireLimits(handshake_timeout_ms=20.0))
    async with NetworkEnvironment(config=config) as environment:
        stranger = await Stranger.dial(environment.address)
        stranger.say(Opening(NONCE).encode()[:said])
        if said == 32:
            await stranger.expect_challenge()
        assert await stranger.read_to_end() == b""
        await stranger.close()


@pytest.mark.parametrize("said", [b"", Opening(bytes(16)).encode()], ids=["nothing", "opening"])
async def test_a_peer_that_leaves_during_the_handshake_is_counted(said: bytes) -> None:
    """The count shows a flood of handshakes even if each attacker closes by itself."""
    async with NetworkEnvironment(config=quick()) as environment:
        stranger = await Stranger.dial(environment.address)
        stranger.say(said)
        if said:
            await stranger.expect_challenge()
        await until(lambda: peers(environment).pending == 1)
        await stranger.close()
        await until(lambda: peers(environment).refused == (("left", 1),))
        assert peers(environment).admitted == 0


async def test_a_refused_peer_that_stays_is_closed_in_time() -> None:
    config = quick(wire=WireLimits(handshake_timeout_ms=20.0))
    async with NetworkEnvironment(config=config) as environment:
        stranger = await Stranger.dial(environment.address)
        stranger.send(b"flinknet\x00\x09\x00\x00")
        assert await stranger.expect_verdict() is Verdict.VERSION
        await until(lambda: peers(environment).turned_away == 0)
        await stranger.close()


async def test_a_handshake_may_come_byte_by_byte_with_messages_behind_it() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        stranger = await Stranger.dial(environment.address)
        for byte in Opening(NONCE).encode():
            stranger.say(bytes([byte]))
            await asyncio.sleep(0)
        await stranger.expect_challenge()
        identity = identity_for(environment)
        for byte in Hello.encode(identity, b"", stranger.transcript):
            stranger.say(bytes([byte]))
            await asyncio.sleep(0)
        assert await stranger.expect_verdict() is Verdict.WELCOME
        partition.release()
        await stranger.close()


async def test_strangers_that_say_nothing_are_few(caplog: pytest.LogCaptureFixture) -> None:
    """Reliability 6: further ones get FULL at once, and there is still room for a peer that is
    quick."""
    config = quick(wire=WireLimits(pending_handshakes_max=3))
    async with NetworkEnvironment(config=config) as environment:
        strangers = [await Stranger.dial(environment.address) for _ in range(6)]
        await until(lambda: peers(environment).refused_total == 3)
        assert peers(environment).pending == 3
        for stranger in strangers[3:]:
            assert await stranger.expect_verdict() is Verdict.FULL
        for stranger in strangers:
            await stranger.close()
        await until(lambda: peers(environment).pending == 0)
        async with Stranger.meet(environment) as good:
            assert good.verdict is Verdict.WELCOME
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_one_connection_more_than_may_be_accepted_is_refused_with_the_reason() -> None:
    """Connections in handshake count as well. The refused one is closed and is no peer."""
    config = quick(wire=WireLimits(accepted_connections_max=2))
    async with NetworkEnvironment(config=config) as environment:
        slow = await Stranger.dial(environment.address)
        slow.say(Opening(NONCE).encode())
        await slow.expect_challenge()
        async with Stranger.meet(environment, worker_id="first", address="127.0.0.1:1"):
            assert (peers(environment).established, peers(environment).pending) == (1, 1)
            async with Stranger.meet(environment, worker_id="more", address="127.0.0.1:2") as more:
                assert more.verdict is Verdict.FULL
                assert "accepted 2 connections" in more.reason
                assert "accepted_connections_max" in more.reason
            assert (peers(environment).admitted, peers(environment).refused_total) == (2, 1)
            assert peers(environment).established == 1
        await slow.close()
        await until(lambda: peers(environment).admitted == 0)


async def test_a_silent_socket_makes_room_for_a_peer_with_a_hello() -> None:
    """This holds for the limit of accepted connections, too."""
    wire = WireLimits(accepted_connections_max=1, handshake_timeout_ms=60_000.0)
    async with NetworkEnvironment(config=quick(wire=wire)) as environment:
        silent = await Stranger.dial(environment.address)
        await until(lambda: peers(environment).admitted == 1)
        verdict: Verdict | None = Verdict.FULL
        while verdict is Verdict.FULL:  # as long as the silent one has only just come
            async with Stranger.meet(environment) as good:
                verdict = good.verdict
                await asyncio.sleep(0)
        assert verdict is Verdict.WELCOME
        assert await silent.expect_verdict() is Verdict.FULL
        await silent.close()


async def test_peers_that_come_and_go_leave_room_for_others() -> None:
    """They may be accepted, refused, cut off in the handshake, or silent."""
    config = quick(wire=WireLimits(accepted_connections_max=1))
    async with NetworkEnvironment(config=config) as environment:
        for number in range(3):
            async with Stranger.meet(environment, worker_id=f"worker {number}") as welcome:
                assert welcome.verdict is Verdict.WELCOME
            await until(lambda: peers(environment).admitted == 0)
            async with Stranger.meet(environment, job="other") as refused:
                assert refused.verdict is Verdict.IDENTITY
            garbage = await Stranger.dial(environment.address)
            garbage.send(b"GET / HTTP/1.1")
            await garbage.read_to_end()
            await garbage.close()
            silent = await Stranger.dial(environment.address)
            await until(lambda: peers(environment).admitted == 1)
            await silent.close()
            await until(lambda: peers(environment).admitted == 0)


async def test_an_early_peer_is_accepted_if_there_is_room_at_its_hello() -> None:
    config = quick(wire=WireLimits(accepted_connections_max=1))
    async with NetworkEnvironment(config=config) as environment:
        async with Stranger.meet(environment):
            early = await Stranger.dial(environment.address)
            await until(lambda: peers(environment).pending == 1)
        await until(lambda: peers(environment).admitted == 0)
        identity = identity_for(environment, worker_id="early")
        assert await early.introduce(identity) is Verdict.WELCOME
        assert peers(environment).admitted == 1
        await early.close()


async def test_a_worker_that_finds_another_one_full_tries_again_and_says_why() -> None:
    wire = WireLimits(accepted_connections_max=1)
    hasty = quick(wire=wire, rendezvous_timeout_ms=1_000.0)
    async with (
        NetworkEnvironment(config=quick(wire=wire)) as full,
        NetworkEnvironment(config=hasty) as late,
    ):
        producing = asyncio.create_task(produce(full, "p", [1]))
        async with Stranger.meet(full):
            with pytest.raises(RemoteTransportError, match="accepted 1 connections") as refused:
                await consume(late, full.address, "p")
            assert isinstance(refused.value.__cause__, HandshakeError)
            assert peers(full).refused_total > 1
        # A dial that had begun runs to its end, and may find that there is room now.
        await until(lambda: peers(full).admitted == 0 or peers(late).established == 1)
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
    """The reason quotes the names and must not break the answer."""
    async with (
        NetworkEnvironment(job="𝄞" * 25, config=quick()) as environment,
        Stranger.meet(environment, job="𝄢" * 25) as stranger,
    ):
        assert stranger.verdict is Verdict.IDENTITY


@pytest.mark.parametrize("options", [{"job": "j" * 101}, {"worker_id": "w" * 101}, {"attempt": -1}])
async def test_names_that_no_hello_can_carry_are_refused_at_the_start(
    options: dict[str, object],
) -> None:
    with pytest.raises(ConfigurationError):
        async with NetworkEnvironment(config=quick(), **options):  # type: ignore[arg-type]
            pytest.fail("it started")


async def test_a_port_in_use_is_refused_at_the_start() -> None:
    """The message contains the numbers, and nothing is left open."""
    async with Host() as host:
        port = int(host.address.rpartition(":")[2])
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with NetworkEnvironment(port=port, config=quick()):
                pytest.fail("it started")


# -- log -------------------------------------------------------------------------------------------


async def test_sockets_and_refusals_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "flinknet.net")
    async with (
        NetworkEnvironment(config=quick()) as producer,
        NetworkEnvironment(job="other", config=quick()) as consumer,
    ):
        await refusal_of(consumer, producer.address)
        await until(lambda: caplog.messages.count(f"{producer.address}: closed") == 1)
        lines = [line for line in caplog.messages if line.startswith(producer.address)]
        assert lines == [
            f"{producer.address}: dialling",
            f"{producer.address}: dialled",
            f"{producer.address}: closed",
        ]
        others = [line for line in caplog.messages if not line.startswith(producer.address)]
        [accepted, refused, *_] = others
        assert accepted.endswith(": accepted")
        peer = accepted.removesuffix(": accepted")
        assert refused.startswith(f"refused (identity): {peer} was refused: this worker serves job")


async def test_the_name_that_a_peer_gives_itself_is_made_printable() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        async with Stranger.meet(environment, worker_id="\x1b[2J"):
            await until(lambda: peers(environment).established == 1)
            [connection] = environment.statistics().connections
            assert connection.peer.startswith("\\x1b[2J")
        await assert_nothing_is_held(environment)

"""A refused peer learns the reason, but nothing of the job; refused requests get a code."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from flinknet import NetworkEnvironment
from flinknet.errors import FlinknetError, HandshakeError
from tests.peers.programs import CONFIG, Language, consumer, producer
from tests.peers.python import wire
from tests.peers.strangers import Stranger, connect, dial, identity

SECRETS = ["", "another"]


def split(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)


REFUSED = b"flinknet\x00\x05\x00\x03\x92\x05\x06"


class Careless(Stranger):
    """A dialling side that sends HELLO without checking the other side's proof."""

    def introduce(self, secret: bytes, early: bytes = b"") -> bytes:
        """Send HELLO, followed by ``early``; return everything received."""
        head = wire.MAGIC + b"\x00\x05"
        said = head + b"\x00\x14\x92\x01\xc4\x10" + bytes(16)
        self.socket.sendall(said)
        challenge = self.heard(66)
        body = b"\x99\x03" + identity().encode() + b"\xc4\x20"
        hello = head + (len(body) + 32).to_bytes(2, "big") + body
        label = b"flinknet dialling hello"
        self.socket.sendall(hello + wire.proof(secret, label + said + challenge + hello) + early)
        return challenge + self.heard(len(REFUSED))

    def heard(self, size: int) -> bytes:
        """Return ``size`` bytes, or the bytes until the end of the stream."""
        found = b""
        while len(found) < size:
            data = self.socket.recv(size - len(found))
            if not data:
                break
            found += data
        return found


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_peer_without_the_secret_learns_nothing(secret: str) -> None:
    """A peer without the secret gets a nonce, a proof and REFUSED, but no names."""

    def run(address: str) -> bytes:
        with socket.create_connection(split(address), 20) as peer:
            return Careless(peer).introduce(secret.encode())

    async with NetworkEnvironment(
        config=CONFIG, secret="the secret", job="orders", worker_id="w-1"
    ) as environment:
        heard = await asyncio.to_thread(run, environment.address)
    assert heard[66:] == REFUSED
    assert b"orders" not in heard
    assert b"w-1" not in heard


async def test_a_request_before_the_handshake_ends_is_not_answered(
    environment: NetworkEnvironment,
) -> None:
    request = wire.encode(wire.REQUEST, 0, wire.partition_id("p"), 0, 1)

    def run() -> bytes:
        with socket.create_connection(split(environment.address), 20) as peer:
            return Careless(peer).introduce(b"", request)

    assert len(await asyncio.to_thread(run)) == 66


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_foreign_consumer_sends_nothing_to_a_peer_without_its_secret(
    language: Language, secret: str
) -> None:
    async with (
        NetworkEnvironment(config=CONFIG, secret="the secret") as environment,
        consumer(language, environment.address, "p", secret=secret) as foreigner,
    ):
        assert await foreigner.records() == (
            {},
            {"violation": "the peer does not know the secret"},
        )


@pytest.mark.parametrize("secret", SECRETS)
async def test_flinknet_believes_no_producer_that_does_not_know_its_secret(
    language: Language, secret: str
) -> None:
    async with producer(language, {"p": [[1]]}, secret=secret) as (peer, address):
        config = replace(CONFIG, rendezvous_timeout_ms=500.0)
        async with NetworkEnvironment(config=config, secret="the secret") as environment:
            with pytest.raises(HandshakeError):
                async with environment.open_reader(address, "p") as reader:
                    await anext(reader)
        assert await peer.end() != "complete"


IDENTITIES: dict[str, dict[str, Any]] = {
    "job": {"job": "another"},
    "attempt": {"attempt": 1},
    "segment size": {"segment_bytes": 1024},
    "worker id": {"worker_id": "me"},
}


@pytest.mark.parametrize("other", IDENTITIES)
async def test_another_identity_is_not_welcome(language: Language, other: str) -> None:
    async with (
        NetworkEnvironment(config=CONFIG, worker_id="me") as environment,
        consumer(language, environment.address, "p", **IDENTITIES[other]) as foreigner,
    ):
        records, end = await foreigner.records()
        assert (records, end["verdict"]) == ({}, "IDENTITY")
        assert end["reason"]


ADDRESSES = ["nonsense", ":1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "a b:1", "its own"]


async def say_address(address: str, said: str) -> None:
    """Dial with this address in the identity, and wait for the end of the connection."""

    def run() -> None:
        with connect(address) as peer, suppress(wire.PeerError):  # both have the same address
            peer.dial(identity(address=said), b"")
            peer.condemned()

    await asyncio.to_thread(run)


@pytest.mark.parametrize("said", ADDRESSES)
async def test_an_address_that_is_none_or_anothers_is_another_identity(
    environment: NetworkEnvironment, said: str
) -> None:
    said = environment.address if said == "its own" else said
    with pytest.raises(wire.RefusedError) as refused:
        await say_address(environment.address, said)
    assert refused.value.verdict == "IDENTITY"


@pytest.mark.parametrize("said", ADDRESSES)
async def test_a_foreign_peer_takes_no_such_address(language: Language, said: str) -> None:
    async with producer(language, {"p": [[1]]}) as (foreigner, address):
        said = address if said == "its own" else said
        await say_address(address, said)
        assert "address" in str(await foreigner.end())


@pytest.mark.parametrize("version", [4, 6, 999])
async def test_another_version_is_told(language: Language, version: int) -> None:
    async with (
        NetworkEnvironment(config=CONFIG) as environment,
        consumer(language, environment.address, "p", version=version) as foreigner,
    ):
        assert await foreigner.records() == ({}, {"verdict": "VERSION", "reason": ""})


async def test_another_version_is_told_whatever_its_length(
    environment: NetworkEnvironment,
) -> None:
    def run() -> bytes:
        with connect(environment.address) as peer:
            peer.socket.sendall(b"flinknet\x00\x06\xff\xff")
            return peer.socket.recv(100)

    heard = await asyncio.to_thread(run)
    assert heard == b"flinknet\x00\x05\x00\x03\x92\x05\x02"


async def test_a_peer_that_is_already_connected_gets_duplicate(
    language: Language, environment: NetworkEnvironment
) -> None:
    """A second connection of a worker gets DUPLICATE, and the first one continues."""
    async with consumer(language, environment.address, "p", pause_after=1) as first:
        async with environment.open_writer("p", buffer_timeout_ms=0.0) as writer:
            await writer.emit(1)
            assert await first.line() == {"paused": 1}
            async with consumer(language, environment.address, "p") as second:
                records, end = await second.records()
                assert (records, end["verdict"]) == ({}, "DUPLICATE")
            await first.say("go on")
        assert await first.records() == ({0: [1]}, "complete")


NOT_FOUND, TIMEOUT, FAILED, GONE, TAKEN = 4, 5, 6, 7, 8


async def code_of(address: str, partition: str, index: int = 0, worker: str = "late") -> int:
    """Return the code of the error that answers a request."""

    def act(peer: Stranger) -> int:
        peer.request(partition, index=index)
        number, code, _ = peer.expect(wire.ERROR).fields
        assert number == 0
        peer.send(wire.CANCEL, 0)
        peer.leave()
        return int(code)

    code: int = await dial(address, act, worker_id=worker)
    return code


async def test_a_request_for_a_part_that_is_read_or_not_there_is_refused(
    language: Language, environment: NetworkEnvironment
) -> None:
    async with consumer(language, environment.address, "p", pause_after=1) as first:
        async with environment.open_writer("p", buffer_timeout_ms=0.0) as writer:
            await writer.emit(1)
            assert await first.line() == {"paused": 1}
            assert await code_of(environment.address, "p") == TAKEN
            assert await code_of(environment.address, "p", 1) == NOT_FOUND
            await first.say("go on")
        assert await first.records() == ({0: [1]}, "complete")
    assert await code_of(environment.address, "p") == NOT_FOUND


async def test_a_request_for_what_failed_hears_that(environment: NetworkEnvironment) -> None:
    with pytest.raises(ValueError, match="π"):
        async with environment.open_writer("p"):
            raise ValueError("π is not 3")
    assert await code_of(environment.address, "p") == FAILED


async def test_a_request_for_what_lost_its_consumers_hears_that(
    environment: NetworkEnvironment,
) -> None:
    def leave(peer: Stranger) -> None:
        peer.request("p")
        peer.expect(wire.BUFFER)
        peer.send(wire.CANCEL, 0)
        peer.leave()

    with pytest.raises(FlinknetError):
        async with environment.open_writer("p", buffer_timeout_ms=0.0) as writer:
            await writer.emit(1)
            await dial(environment.address, leave)
            while True:
                await writer.emit(1)
    assert await code_of(environment.address, "p") == GONE


@pytest.mark.parametrize("config", [replace(CONFIG, rendezvous_timeout_ms=100.0)], ids=["brief"])
async def test_a_part_that_is_meant_for_another_is_as_if_it_were_not_there(
    environment: NetworkEnvironment,
) -> None:
    """A request for another consumer's subpartition waits, and times out as for an unknown one."""
    granted = asyncio.ensure_future(code_of(environment.address, "never"))
    partition = environment.create_result_partition("p", subpartitions=1, consumers=["another"])
    try:
        assert await code_of(environment.address, "p", worker="thief") == TIMEOUT
        assert await granted == TIMEOUT
    finally:
        partition.release()

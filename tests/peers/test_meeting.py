"""Limits on connections and channels, and the choice between two connections."""

from __future__ import annotations

import asyncio
import select
import socket
from dataclasses import replace
from typing import Any

import pytest

from flinknet import NetworkConfig, NetworkEnvironment
from flinknet.config import WireLimits
from tests.peers.programs import CONFIG
from tests.peers.python import wire
from tests.peers.strangers import PATIENCE_S, Stranger, connect, dial, identity

DUPLICATE = 4
PROTOCOL, TOO_MANY_CHANNELS = 1, 10


@pytest.fixture
def config() -> NetworkConfig:
    """A configuration with low limits."""
    limits = WireLimits(
        accepted_connections_max=2, channels_per_connection_max=4, channels_per_worker_max=4
    )
    return replace(CONFIG, wire=limits)


def serve(peer: Stranger) -> None:
    """Serve one record as a producer."""
    number = peer.expect(wire.REQUEST).fields[0]
    peer.buffer(number, 0, wire.DATA_WITH_CLEAR_END, b"\x07", records=1)
    peer.buffer(number, 1, wire.END_OF_DATA, b"\x91\x00")
    peer.expect(wire.ACKNOWLEDGE)
    peer.buffer(number, 2, wire.END_OF_PARTITION, b"\x90")
    peer.expect(wire.CANCEL)


@pytest.mark.parametrize("name", ["a", "z"])
async def test_of_two_that_dial_each_other_the_smaller_id_wins(name: str) -> None:
    """The connection of the smaller worker id wins; the other side gets DUPLICATE, and uses it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        me = identity(worker_id=name, address=address)

        def run() -> str:
            with Stranger(listener.accept()[0]) as theirs, connect(environment.address) as mine:
                try:
                    mine.dial(me, b"")
                except wire.RefusedError as refusal:
                    theirs.accept(me, b"")
                    serve(theirs)
                    return refusal.verdict
                theirs.accept(me, b"", DUPLICATE)
                theirs.close()
                serve(mine)
                return "WELCOME"

        async with NetworkEnvironment(config=CONFIG, worker_id="m") as environment:
            running = asyncio.create_task(asyncio.to_thread(run))
            async with environment.open_reader(address, "p") as reader:
                assert [record async for record in reader] == [7]
            assert await running == ("WELCOME" if name == "a" else "DUPLICATE")


async def test_one_more_than_there_is_room_for_hears_that(environment: NetworkEnvironment) -> None:
    """A connection above the limit gets FULL."""

    def run() -> str:
        with connect(environment.address) as first, connect(environment.address) as second:
            first.dial(identity(worker_id="first"), b"")
            second.dial(identity(worker_id="second"), b"")
            with connect(environment.address) as third:
                try:
                    third.dial(identity(worker_id="third"), b"")
                except wire.RefusedError as refusal:
                    verdict = refusal.verdict
                else:
                    verdict = "WELCOME"
            first.leave()
        return verdict

    assert await asyncio.to_thread(run) == "FULL"


async def test_a_request_over_the_limit_of_its_connection_is_a_violation(
    environment: NetworkEnvironment,
) -> None:
    def crowd(peer: Stranger) -> Any:
        for number in range(5):
            peer.request("never", channel=number)
        return peer.condemned()

    assert await dial(environment.address, crowd) == PROTOCOL


async def test_requests_over_the_limit_of_the_worker_fail_alone(
    environment: NetworkEnvironment,
) -> None:
    """A request above the limit of all workers together gets TOO_MANY_CHANNELS."""

    def run() -> Any:
        with connect(environment.address) as crowd, connect(environment.address) as asking:
            crowd.dial(identity(worker_id="crowd"), b"")
            asking.dial(identity(worker_id="asking"), b"")
            for number in range(3):
                crowd.request("never", channel=number)
                asking.request("never", channel=number)
            ready = select.select([crowd.socket, asking.socket], [], [], PATIENCE_S)[0]
            refused = crowd if crowd.socket in ready else asking
            return refused.expect(wire.ERROR).fields[1]

    assert await asyncio.to_thread(run) == TOO_MANY_CHANNELS

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from typing import Any, cast

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError
from flinknet.net import busy_poll
from flinknet.net.busy_poll import BusyPoll
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.records.reader import RecordReader
from tests.unit.net.turns import Turns

MICROSECOND = 1e-6


async def collect(reader: RecordReader) -> list[Any]:
    return [record async for record in reader]


class Arranged:
    def __init__(self, duration_us: float) -> None:
        self.loop = Turns()
        self.poll = BusyPoll(
            cast(AbstractEventLoop, self.loop), duration_us, lambda: round(self.loop.now * 1e9)
        )

    @property
    def is_awake(self) -> bool:
        assert len(self.loop.soon) <= 1, "it is scheduled once"
        return bool(self.loop.soon)

    def turns_until_asleep(self, turn_us: float) -> int:
        turns = 0
        while self.is_awake:
            self.loop.turn(turn_us * MICROSECOND)
            turns += 1
        return turns


def test_the_loop_is_kept_awake_for_the_duration() -> None:
    arranged = Arranged(100)
    assert not arranged.is_awake
    arranged.poll.extend()
    assert arranged.turns_until_asleep(30) == 4


def test_traffic_extends_the_polling() -> None:
    arranged = Arranged(100)
    arranged.poll.extend()
    arranged.loop.turn(90 * MICROSECOND)
    arranged.poll.extend()
    arranged.poll.extend()
    assert arranged.turns_until_asleep(30) == 4


def test_it_begins_anew_after_a_rest() -> None:
    arranged = Arranged(100)
    for _ in range(2):
        arranged.poll.extend()
        assert arranged.turns_until_asleep(50) == 2


@pytest.mark.parametrize(("busy_poll_us", "expected"), [(0.0, False), (1000.0, True)])
async def test_an_arrival_keeps_the_loop_awake_if_it_shall(
    busy_poll_us: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def count() -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(busy_poll, "offer_processor", count)
    config = NetworkConfig(network_memory_bytes=1 << 20, busy_poll_us=busy_poll_us)
    async with (
        NetworkEnvironment(config=config) as there,
        NetworkEnvironment(config=config) as here,
        here.open_reader(there.address, "p") as reader,
    ):
        async with there.open_writer("p") as writer:
            await writer.emit((1, "one"))
            rest = asyncio.create_task(collect(reader))
        assert await rest == [(1, "one")]
    assert (looks > 0) is expected


@pytest.mark.parametrize("busy_poll_us", [-1.0, 1_000_001.0, float("inf"), float("nan")])
def test_a_duration_that_cannot_be_meant_is_refused(busy_poll_us: float) -> None:
    with pytest.raises(ConfigurationError, match="busy_poll_us is .*: choose "):
        NetworkConfig(busy_poll_us=busy_poll_us)

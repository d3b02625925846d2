"""The amount that is read before other tasks get a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import MetricsConfig
from flinknet.metrics.turns import Reading, Turns, one_by_one

FEW = MetricsConfig(turn_channels=3)


class Clock:
    """A clock that stands still unless it is advanced."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def read(*several: Sequence[int], turns: Turns, log: list[int | str]) -> Reading[int]:
    """Sum up entries, and record the order of reading."""
    total = 0
    for entries in several:
        for part in turns.parts(entries):
            log += part
            total += sum(part)
            yield
    return total


async def counted(turning: asyncio.Task[int], log: list[int | str]) -> int:
    """Record each turn of the loop, too."""
    while not turning.done():
        log.append("turn")
        await asyncio.sleep(0)
    return await turning


async def test_no_turn_reads_more_than_it_may_whatever_the_lists() -> None:
    turns, log = Turns(FEW, Clock()), list[int | str]()
    reading = asyncio.create_task(
        turns.go_through(read([1, 2], [3, 4, 5, 6, 7], [], [8], turns=turns, log=log))
    )
    assert await counted(reading, log) == sum(range(9))
    assert log == ["turn", 1, 2, 3, "turn", 4, 5, 6, "turn", 7, 8, "turn"][: len(log)]
    assert [one for one in log if one != "turn"] == list(range(1, 9))


async def test_a_turn_ends_when_it_has_lasted_long_enough() -> None:
    clock = Clock()
    turns, log = Turns(MetricsConfig(turn_ms=2.0), clock), list[int | str]()

    def slowly() -> Reading[int]:
        for number in range(4):
            clock.now += 0.001
            log.append(number)
            yield
        return 4

    assert await counted(asyncio.create_task(turns.go_through(slowly())), log) == 4
    assert log == ["turn", 0, 1, "turn", 2, 3, "turn"]


@given(st.integers(1, 5), st.lists(st.lists(st.integers()), max_size=5))
def test_at_once_reads_the_same(channels: int, several: list[list[int]]) -> None:
    turns, log = Turns(MetricsConfig(turn_channels=channels)), list[int | str]()
    total = turns.at_once(read(*several, turns=turns, log=log))
    assert total == sum(map(sum, several))
    assert log == [number for numbers in several for number in numbers]


async def test_an_error_ends_the_reading() -> None:
    def broken() -> Reading[None]:
        yield
        raise ValueError("nothing to read")

    turns = Turns()
    with pytest.raises(ValueError, match="nothing to read"):
        await turns.go_through(broken())
    with pytest.raises(ValueError, match="nothing to read"):
        turns.at_once(broken())


def test_several_readings_are_one_after_the_other() -> None:
    turns, log = Turns(), list[int | str]()
    readings = (read(numbers, turns=turns, log=log) for numbers in ([1, 2], [], [3]))
    assert turns.at_once(one_by_one(readings)) == (3, 0, 3)
    assert log == [1, 2, 3]

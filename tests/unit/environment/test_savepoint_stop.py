"""A subtask stays in its part of a savepoint until the outcome of the savepoint is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flinknet.environment.savepoint_stop import OUTCOMES_KEPT, SavepointStop, Stopped


class Posted:
    """The posted actions."""

    def __init__(self) -> None:
        self.actions: list[Callable[[], Any]] = []
        self.stop = SavepointStop(self.actions.append)

    def run(self) -> list[Any]:
        return [action() for action in self.actions]


async def test_a_complete_savepoint_stops_the_subtask_and_its_timers() -> None:
    posted = Posted()
    posted.stop.post_timer(lambda: "rang")
    assert posted.run() == ["rang"]
    holding = asyncio.ensure_future(posted.stop.hold(3))
    await asyncio.sleep(0)
    posted.stop.ended(2, complete=True)
    await asyncio.sleep(0)
    assert not holding.done()
    posted.stop.ended(3, complete=True)
    with pytest.raises(Stopped):
        await holding
    assert posted.stop.has_stopped
    assert posted.run() == [None]


async def test_one_that_failed_lets_it_go_on() -> None:
    posted = Posted()
    posted.stop.ended(3, complete=False)
    assert posted.stop.is_aborted(3)
    assert not posted.stop.is_aborted(4)
    await posted.stop.hold(3)
    assert not posted.stop.has_stopped


def test_what_became_of_old_ones_is_forgotten() -> None:
    stop = Posted().stop
    for number in range(OUTCOMES_KEPT + 1):
        stop.ended(number, complete=False)
    assert not stop.is_aborted(0)
    assert stop.is_aborted(1)

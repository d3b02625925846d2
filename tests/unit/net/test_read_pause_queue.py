"""The rest queue: one link goes on in each turn of the event loop, in order of arrival."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise

from flinknet.net.read_pause_queue import ReadPauseQueue


async def test_one_rest_ends_in_a_turn_and_the_others_have_theirs_between() -> None:
    loop = asyncio.get_running_loop()
    queue = ReadPauseQueue(loop)
    seen: list[object] = []

    def others() -> None:
        seen.append("others")
        if len(seen) < 12:
            loop.call_soon(others)

    loop.call_soon(others)
    now = loop.time()
    for name in "abc":
        queue.add(now, partial(seen.append, name))
    cancelled = queue.add(now, partial(seen.append, "cancelled"))
    cancelled.cancel()
    last = loop.create_future()
    queue.add(now, lambda: last.set_result(None))
    await last
    named = [index for index, what in enumerate(seen) if what in ("a", "b", "c")]
    assert [seen[index] for index in named] == ["a", "b", "c"]
    assert all("others" in seen[one:other] for one, other in pairwise(named))
    assert "cancelled" not in seen


async def test_a_rest_lasts_until_its_time() -> None:
    loop = asyncio.get_running_loop()
    queue = ReadPauseQueue(loop)
    ended: asyncio.Future[float] = loop.create_future()
    until = loop.time() + 0.02
    queue.add(until, lambda: ended.set_result(loop.time()))
    assert await ended >= until - 0.002, "uvloop counts whole milliseconds"


async def test_a_rest_whose_end_raises_does_not_hold_up_the_others() -> None:
    loop = asyncio.get_running_loop()
    raised: list[object] = []
    loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
    queue = ReadPauseQueue(loop)
    fault = ValueError("in the end of a rest")
    done = loop.create_future()

    def fail() -> None:
        raise fault

    queue.add(loop.time(), fail)
    queue.add(loop.time(), partial(done.set_result, None))
    await done
    loop.set_exception_handler(None)
    assert raised == [fault]


async def test_a_rest_that_begins_another_waits_its_turn() -> None:
    """A link does so when its peer keeps sending such requests."""
    loop = asyncio.get_running_loop()
    queue = ReadPauseQueue(loop)
    seen: list[str] = []
    done = loop.create_future()

    def ask(name: str, times: int) -> None:
        seen.append(name)
        if times:
            queue.add(loop.time(), partial(ask, name, times - 1))
        elif len(seen) == 6:
            done.set_result(None)

    for name in "ab":
        queue.add(loop.time(), partial(ask, name, 2))
    await done
    assert seen == ["a", "b"] * 3

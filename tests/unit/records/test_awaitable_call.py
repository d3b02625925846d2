from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

import pytest

from flinknet.records.awaitable_call import AwaitableCall, Continuation

Call = Callable[[str], Coroutine[Any, Any, Any]]


class Calls:
    """A call and the coroutine function that it stands for, and what has happened in them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def call(self, what: str) -> AwaitableCall:
        return AwaitableCall(self._begin, what)

    async def coroutine(self, what: str) -> Any:
        returned = self._begin(what)
        return await returned.coroutine if isinstance(returned, Continuation) else returned

    def _begin(self, what: str) -> Any:
        self.seen.append(what)
        if what == "fail":
            raise ValueError(what)
        if what == "end":
            raise StopIteration(what)
        return Continuation(self._go_on(what)) if what.startswith("wait") else (what, "done")

    async def _go_on(self, what: str) -> Any:
        try:
            answer = await _suspend(what)
        finally:
            self.seen.append("left")
        if answer == "fail":
            raise ValueError(answer)
        return what, answer


@coroutine
def _suspend(what: str) -> Generator[str, Any, Any]:
    return (yield what)


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture(params=["call", "coroutine"])
def call(request: pytest.FixtureRequest, calls: Calls) -> Call:
    """Everything holds for a coroutine, too: that is what an awaitable call has to be like."""
    made: Call = getattr(calls, request.param)
    return made


def send(to: Coroutine[Any, Any, Any], value: Any = None) -> Any:
    """Return what is suspended with, or the result in a list."""
    try:
        return to.send(value)
    except StopIteration as end:
        return [end.value]


def test_a_call_that_need_not_wait_returns_at_once(call: Call, calls: Calls) -> None:
    async def twice() -> list[Any]:
        return [await call("one"), await call("two")]

    assert send(twice()) == [[("one", "done"), ("two", "done")]]
    assert calls.seen == ["one", "two"]


def test_a_call_goes_on_as_a_coroutine(call: Call, calls: Calls) -> None:
    async def once() -> Any:
        return await call("wait")

    running = once()
    assert send(running) == "wait"
    assert send(running, "so long") == [("wait", "so long")]
    assert calls.seen == ["wait", "left"]


def test_a_call_waits_more_than_once(call: Call, calls: Calls) -> None:
    """And goes on with nothing in particular, as after most futures."""

    async def twice() -> Any:
        return await call("wait"), await call("wait longer")

    running = twice()
    assert [send(running), send(running)] == ["wait", "wait longer"]
    assert send(running) == [(("wait", None), ("wait longer", None))]
    assert calls.seen == ["wait", "left", "wait longer", "left"]


def test_a_coroutine_that_is_a_generator_yields_from_a_call(call: Call, calls: Calls) -> None:
    @coroutine
    def once() -> Generator[Any, Any, Any]:
        return (yield from call("wait"))

    running = once()
    assert send(running) == "wait"
    assert send(running, "so long") == [("wait", "so long")]
    assert calls.seen == ["wait", "left"]


def test_nothing_happens_before_a_call_is_awaited(call: Call, calls: Calls) -> None:
    made = call("one")
    assert calls.seen == []
    made.close()
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        made.send(None)
    assert calls.seen == []


@pytest.mark.parametrize("what", ["one", "wait"])
def test_a_call_is_awaited_once(call: Call, calls: Calls, what: str) -> None:
    made = call(what)
    if what == "wait":
        send(made)
    assert send(made, None) == [(what, "done" if what == "one" else None)]
    seen = list(calls.seen)
    for again in (lambda: made.send(None), lambda: made.throw(KeyError())):
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            again()
    assert calls.seen == seen


def test_a_failed_call_is_over(call: Call) -> None:
    for what, raised in (("fail", ValueError), ("wait", ValueError)):
        made = call(what)
        if what == "wait":
            send(made)
        with pytest.raises(raised, match="fail"):
            made.send(None if what == "fail" else "fail")
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            made.send(None)


def test_an_iteration_that_ends_inside_is_no_result(call: Call) -> None:
    """A record whose key function raises StopIteration must not count as emitted."""
    with pytest.raises(RuntimeError, match="coroutine raised StopIteration"):
        call("end").send(None)


def test_an_error_in_place_of_the_beginning(call: Call, calls: Calls) -> None:
    made = call("one")
    with pytest.raises(KeyError):
        made.throw(KeyError())
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        made.send(None)
    assert calls.seen == []


def test_an_error_while_it_waits(call: Call, calls: Calls) -> None:
    made = call("wait")
    send(made)
    with pytest.raises(KeyError):
        made.throw(KeyError())
    assert calls.seen == ["wait", "left"]


def test_a_waiting_call_that_is_closed_leaves(call: Call, calls: Calls) -> None:
    made = call("wait")
    send(made)
    made.close()
    made.close()
    assert calls.seen == ["wait", "left"]


async def test_a_task_runs_a_call_and_cancels_it(call: Call, calls: Calls) -> None:
    assert await asyncio.create_task(call("one")) == ("one", "done")
    early = asyncio.create_task(call("two"))
    early.cancel()
    with pytest.raises(asyncio.CancelledError):
        await early
    assert calls.seen == ["one"]


async def test_a_call_can_be_timed_and_gathered(call: Call) -> None:
    assert await asyncio.wait_for(call("one"), 60) == ("one", "done")
    results = await asyncio.gather(*[call(what) for what in ("one", "two")])
    assert results == [("one", "done"), ("two", "done")]

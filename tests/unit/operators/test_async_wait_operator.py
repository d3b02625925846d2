"""Requests for records: order, capacity, time-outs, retries, and their part in a checkpoint."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from flinknet.buffer.availability import Availability
from flinknet.datastream.async_retry_predicates import empty_result_predicate
from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.async_retry import NO_RETRY_STRATEGY, AsyncRetryStrategy
from flinknet.functions.calls import value_of
from flinknet.functions.context import RuntimeContext
from flinknet.functions.functions import AsyncFunction
from flinknet.operators import async_wait_operator
from flinknet.operators.async_wait_operator import AsyncWaitOperator
from flinknet.state.state_handler import StateHandler
from flinknet.wire.events import Watermark, WatermarkStatus
from tests.unit.operators.harness import Harness, context


class Answered(AsyncFunction):
    """A function with requests that the test answers, by value."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._answers: dict[Any, asyncio.Future[Any]] = defaultdict(
            asyncio.get_running_loop().create_future
        )

    async def async_invoke(self, value: Any) -> Any:
        self.asked.append(value)
        return await self._answers[value]

    async def answer(self, value: Any, results: Any) -> None:
        """Answer a request, and let the loop turn until the operator has the answer."""
        answer = self._answers[value]
        if isinstance(results, BaseException):
            answer.set_exception(results)
        else:
            answer.set_result(results)
        await turns()

    def finish(self) -> list[str]:
        return ["the end"]


class Waiting(Harness):
    """An open operator, and the mails that it has posted."""

    def __init__(
        self,
        function: Any,
        *,
        state: StateHandler | None = None,
        stamped: bool = False,
        **options: Any,
    ) -> None:
        self.mails: list[Callable[[], Any]] = []
        fields: dict[str, Any] = {"processing_time": ProcessingTimeService(self.mails.append)}
        if state is not None:
            fields["state"] = state
        super().__init__(operator_of(function, **options), context(**fields), stamped=stamped)

    async def run_mails(self) -> list[Any]:
        """Run the waiting mails; return the records emitted by them."""
        before = len(self.records)
        mails = list(self.mails)
        self.mails.clear()
        for mail in mails:
            await value_of(mail())
        return self.records[before:]


def operator_of(function: Any, **options: Any) -> AsyncWaitOperator:
    settings: dict[str, Any] = {"timeout_ms": 0, "capacity": 10, "ordered": True}
    return AsyncWaitOperator(function, **(settings | {"retries": NO_RETRY_STRATEGY} | options))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_results_leave_in_order_when_a_mail_is_run() -> None:
    function = Answered()
    async with Waiting(function) as harness:
        assert await harness.process(1, 2) == []
        await turns()
        assert function.asked == [1, 2]
        await function.answer(2, ["two", "zwei"])
        assert await harness.run_mails() == []
        assert harness.records == []
        await function.answer(1, None)
        assert await harness.run_mails() == ["two", "zwei"]
        assert await harness.end_of_input() == ["the end"]


async def test_without_order_they_leave_as_they_come() -> None:
    function = Answered()
    async with Waiting(function, ordered=False) as harness:
        await harness.process(1, 2)
        await function.answer(2, ["two"])
        await function.answer(1, ["one"])
        assert len(harness.mails) == 1
        assert await harness.run_mails() == ["two", "one"]


async def test_records_without_room_wait_and_so_does_the_next_batch() -> None:
    function = Answered()
    async with Waiting(function, capacity=2) as harness:
        assert room_of(harness).available
        await harness.process(1, 2, 3)
        await turns()
        assert function.asked == [1, 2]
        assert not room_of(harness).available
        processing = asyncio.create_task(harness.process(4))
        await function.answer(2, [2])
        assert function.asked == [1, 2]
        await function.answer(1, [1])
        await processing
        await turns()
        assert function.asked == [1, 2, 3, 4]
        ending = asyncio.create_task(harness.end_of_input())
        await turns()
        assert not ending.done()
        await function.answer(3, [3])
        assert harness.records == [1, 2, 3]
        assert room_of(harness).available
        await function.answer(4, [4])
        assert await ending == [3, 4, "the end"]


def room_of(harness: Harness) -> Availability:
    assert harness.operator.room is not None
    return harness.operator.room


async def test_of_watermarks_that_find_no_room_the_last_one_counts() -> None:
    function = Answered()
    async with Waiting(function, capacity=1, stamped=True) as harness:
        await harness.process((1, "a"), (2, "b"))
        for time in (2, 3):
            await harness.operator.process_event_time(Watermark(time))
        harness.operator.prepare_snapshot(1)
        assert in_flight(harness.context) == [(1, "a"), (2, "b")]
        idle = WatermarkStatus(idle=True)
        telling = asyncio.create_task(harness.operator.process_event_time(idle))
        await function.answer("a", ["A"])
        assert harness.event_time == []
        await function.answer("b", ["B"])
        await telling
        await harness.run_mails()
        assert harness.records == [(1, "A"), (2, "B")]
        assert harness.event_time == [Watermark(3), idle]


@pytest.mark.parametrize("ordered", [True, False])
async def test_event_time_stays_behind_the_records_before_it(ordered: bool) -> None:
    function = Answered()
    async with Waiting(function, ordered=ordered, stamped=True) as harness:
        await harness.process((5, "a"))
        await harness.operator.process_event_time(Watermark(5))
        await harness.process((6, "b"))
        await harness.operator.process_event_time(WatermarkStatus(idle=True))
        await function.answer("b", ["B"])
        await harness.run_mails()
        assert harness.event_time == []
        await function.answer("a", ["A", "AA"])
        assert await harness.run_mails() == [(5, "A"), (5, "AA"), (6, "B")]
        assert harness.event_time == [Watermark(5), WatermarkStatus(idle=True)]
        assert harness.context.process_context.current_watermark == 5
        assert await harness.end_of_input() == [(None, "the end")]


async def test_an_error_of_a_request_fails_the_subtask_with_its_record() -> None:
    function = Answered()
    async with Waiting(function) as harness:
        await harness.process(1, "two")
        await function.answer("two", ValueError("no such thing"))
        await function.answer(1, ValueError("comes second"))
        failed = (
            'operator "tested" (1/1) failed on a record of type str, '
            "'two': ValueError: no such thing"
        )
        with pytest.raises(JobFailedError) as raised:
            await harness.run_mails()
        assert str(raised.value) == failed
        with pytest.raises(JobFailedError):
            await harness.end_of_input()


async def test_one_record_for_several_is_an_error() -> None:
    async def one_text(value: Any) -> str:
        return "one"

    async with Waiting(one_text) as harness:
        await harness.process(1)
        with pytest.raises(JobFailedError, match="not an iterable of records"):
            await harness.end_of_input()


async def test_a_request_that_cancels_itself_fails_the_subtask() -> None:
    function = Answered()
    async with Waiting(function) as harness:
        await harness.process(1)
        await function.answer(1, asyncio.CancelledError())
        with pytest.raises(JobFailedError, match="its request was cancelled"):
            await harness.run_mails()


async def test_a_request_that_takes_too_long_is_over() -> None:
    never = Answered()
    async with Waiting(never, timeout_ms=1) as harness:
        await harness.process("slow")
        with pytest.raises(
            JobFailedError, match="the request for 'slow' was not completed in time"
        ):
            await harness.end_of_input()

    async def forever(value: Any) -> None:
        await asyncio.Event().wait()

    async with Waiting(forever, timeout_ms=1) as harness:
        await harness.process("slow")
        with pytest.raises(
            JobFailedError, match="the request for 'slow' was not completed in time"
        ):
            await harness.end_of_input()


@pytest.mark.parametrize("ends_in", ["an error", "a result", "no result"])
@pytest.mark.parametrize("is_retried", [False, True])
async def test_whatever_a_function_makes_of_its_cancellation_its_time_is_over(
    ends_in: str, is_retried: bool
) -> None:
    """Neither its error nor its late result counts, and it is not called again because of them."""
    calls: list[Any] = []

    class Stubborn(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            calls.append(value)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if ends_in == "an error":
                    raise OSError("the connection was closed") from None
            return ["late"] if ends_in == "a result" else []

        def timeout(self, value: Any) -> list[Any]:
            return ["instead"]

    always = AsyncRetryStrategy.fixed_delay(3, 1, lambda results: True, lambda error: True)
    retries = always if is_retried else NO_RETRY_STRATEGY
    async with Waiting(Stubborn(), retries=retries, timeout_ms=1) as harness:
        await harness.process("slow")
        assert await harness.end_of_input() == ["instead"]
    assert calls == ["slow"]


async def test_a_request_that_ends_in_an_error_when_it_is_closed_is_not_made_again() -> None:
    calls: list[Any] = []

    async def stubborn(value: Any) -> None:
        calls.append(value)
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the connection was closed")

    always = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: True)
    async with Waiting(stubborn, retries=always) as harness:
        await harness.process("x")
        await turns()
    assert calls == ["x"]


async def test_a_function_says_what_is_emitted_then() -> None:
    class Instead(Answered):
        def timeout(self, value: Any) -> list[Any]:
            return [value, "instead"]

        def finish(self) -> list[str]:
            return []

    async with Waiting(Instead(), timeout_ms=1) as harness:
        await harness.process("slow")
        assert await harness.end_of_input() == ["slow", "instead"]


async def test_a_timeout_of_the_functions_own_is_an_error_as_any_other() -> None:
    async def impatient(value: Any) -> None:
        raise TimeoutError("the server said so")

    async with Waiting(impatient, timeout_ms=60_000) as harness:
        await harness.process(1)
        with pytest.raises(JobFailedError, match="TimeoutError: the server said so"):
            await harness.end_of_input()


async def test_a_request_is_made_again_for_its_error_and_for_its_results() -> None:
    attempts: list[Any] = []
    answers = iter([OSError("down"), [], ["up"]])

    async def flaky(value: Any) -> Any:
        attempts.append(value)
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    retries = AsyncRetryStrategy.fixed_delay(
        2, 1, empty_result_predicate, lambda error: isinstance(error, OSError)
    )
    async with Waiting(flaky, retries=retries, timeout_ms=60_000) as harness:
        await harness.process("x")
        assert await harness.end_of_input() == ["up"]
    assert attempts == ["x"] * 3


async def test_the_last_attempt_stands() -> None:
    async def failing(value: Any) -> None:
        raise OSError("still down")

    async def empty(value: Any) -> list[Any]:
        return []

    retries = AsyncRetryStrategy.fixed_delay(1, 1, empty_result_predicate, lambda error: True)
    async with Waiting(failing, retries=retries, timeout_ms=60_000) as harness:
        await harness.process("x")
        with pytest.raises(JobFailedError, match="OSError: still down"):
            await harness.end_of_input()
    async with Waiting(empty, retries=retries, timeout_ms=60_000) as harness:
        await harness.process("x")
        assert await harness.end_of_input() == []


async def test_a_function_that_blocks_runs_in_threads_side_by_side() -> None:
    both = threading.Barrier(2, timeout=30)

    class Blocking(AsyncFunction):
        def async_invoke(self, value: Any) -> list[Any]:
            both.wait()
            return [value, threading.current_thread().name]

    async with Waiting(Blocking(), in_thread=True, capacity=2) as harness:
        await harness.process(1, 2)
        await harness.end_of_input()
    assert harness.records[::2] == [1, 2]
    assert all(name.startswith("tested") for name in harness.records[1::2])


def state_with(*elements: Any) -> StateHandler:
    state = StateHandler()
    state.operator.get_list_state(IN_FLIGHT).update(elements)
    return state


IN_FLIGHT = async_wait_operator._IN_FLIGHT


def in_flight(runtime_context: RuntimeContext) -> list[Any]:
    elements: list[Any] = runtime_context.state.operator.get_list_state(IN_FLIGHT).get()
    return elements


async def test_a_checkpoint_has_what_was_not_emitted() -> None:
    function = Answered()
    async with Waiting(function, ordered=False) as harness:
        await harness.process(1, 2, 3)
        await function.answer(2, ["two"])
        harness.operator.prepare_snapshot(1)
        assert sorted(in_flight(harness.context)) == [1, 2, 3]
        await harness.run_mails()
        harness.operator.prepare_snapshot(2)
        assert in_flight(harness.context) == [1, 3]


async def test_restored_requests_are_repeated_before_new_ones() -> None:
    function = Answered()
    state = state_with(1, 2, 3)
    async with Waiting(function, state=state, capacity=2) as harness:
        processing = asyncio.create_task(harness.process(4))
        await turns()
        assert function.asked == [1, 2]
        harness.operator.prepare_snapshot(1)
        assert in_flight(harness.context) == [1, 2, 3]
        await function.answer(1, ["one"])
        assert function.asked == [1, 2, 3]
        for value in (2, 3, 4):
            await function.answer(value, [value])
        await processing
        await harness.end_of_input()
        assert harness.records == ["one", 2, 3, 4, "the end"]


async def test_nothing_is_heard_of_requests_once_the_operator_is_closed() -> None:
    function = Answered()
    async with Waiting(function) as harness:
        await harness.process(1)
        await turns()
    await turns()
    assert harness.mails == []
    assert harness.records == []


def test_a_function_must_not_block_all_others_by_mistake() -> None:
    def blocking(value: Any) -> list[Any]:
        return [value]

    async def waiting(value: Any) -> list[Any]:
        return [value]

    with pytest.raises(ConfigurationError, match="async_invoke of blocking is not a coroutine"):
        operator_of(blocking)
    with pytest.raises(ConfigurationError, match="cannot run in a thread: omit in_thread"):
        operator_of(waiting, in_thread=True)
    with pytest.raises(ConfigurationError, match="async_invoke needs a callable"):
        operator_of(3)
    assert operator_of(blocking, in_thread=True).room is not None

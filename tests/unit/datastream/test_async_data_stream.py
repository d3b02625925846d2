"""Requests for the records of a stream, in jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flinknet.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CollectSink,
    DataStream,
    Duration,
    StreamExecutionEnvironment,
    Time,
    Types,
    WatermarkStrategy,
)
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.graph.graph import JobGraph
from flinknet.runtime.restored_state import RestoredState
from flinknet.wire.events import Alignment, CheckpointBarrier, CheckpointOptions
from tests.unit.runtime.checkpointed import Answers, deploy, store_in, trigger
from tests.unit.runtime.running import environments, open_all, run, run_job

MINUTE = Time.minutes(1)


class Doubled(AsyncFunction):
    """Odd numbers take one more turn of the loop."""

    async def async_invoke(self, value: int) -> list[int]:
        for _ in range(value % 2):
            await asyncio.sleep(0)
        return [2 * value]


async def collected(environment: StreamExecutionEnvironment) -> list[Any]:
    outcome = await run_job(environment)
    return outcome.collected["Collect"]


@pytest.mark.parametrize("chained", [True, False])
async def test_results_come_in_order_or_as_they_come(chained: bool) -> None:
    environment = StreamExecutionEnvironment()
    numbers = environment.from_collection(range(5000))
    if not chained:
        numbers = numbers.rebalance()
    ordered = AsyncDataStream.ordered_wait(numbers, Doubled(), MINUTE, 10, Types.INT())
    ordered.sink_to(CollectSink())
    assert await collected(environment) == list(range(0, 10_000, 2))

    environment = StreamExecutionEnvironment()
    numbers = environment.from_collection(range(5000))
    results = AsyncDataStream.unordered_wait(numbers, Doubled(), Duration.of_minutes(1))
    results.sink_to(CollectSink())
    assert sorted(await collected(environment)) == list(range(0, 10_000, 2))


async def test_a_request_is_made_again_and_a_type_holds() -> None:
    environment = StreamExecutionEnvironment()
    retries = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: True)
    attempts: dict[int, int] = {}

    async def second_time(value: int) -> list[Any]:
        attempts[value] = attempts.get(value, 0) + 1
        if attempts[value] < 2:
            raise OSError("again, please")
        return ["no number"]

    for method in (
        AsyncDataStream.ordered_wait_with_retry,
        AsyncDataStream.unordered_wait_with_retry,
    ):
        numbers = environment.from_collection([1])
        results = method(numbers, second_time, MINUTE, retries, 100, Types.INT())
        results.sink_to(CollectSink())
        with pytest.raises(JobFailedError, match='"async wait operator".*to the declared type'):
            await collected(environment)
        environment = StreamExecutionEnvironment()


async def test_results_have_the_time_of_their_record() -> None:
    environment = StreamExecutionEnvironment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, stamp: 10 * value
    )
    numbers = environment.from_collection(range(3)).assign_timestamps_and_watermarks(strategy)
    results = AsyncDataStream.unordered_wait(numbers, Doubled(), MINUTE)
    results.process(lambda value, ctx: [(ctx.timestamp(), value)]).sink_to(CollectSink())
    assert sorted(await collected(environment)) == [(0, 0), (10, 2), (20, 4)]


class Held(AsyncFunction):
    """Requests that are answered when the test says so."""

    answers = asyncio.Event()
    asked: ClassVar[list[int]] = []

    async def async_invoke(self, value: int) -> list[int]:
        self.asked.append(value)
        await self.answers.wait()
        return [value]


def held(*, unaligned: bool, chained: bool) -> JobGraph:
    environment = StreamExecutionEnvironment()
    environment.enable_checkpointing(1000)
    environment.get_checkpoint_config().enable_unaligned_checkpoints(unaligned)
    numbers = environment.from_collection(range(3000))
    if not chained:
        numbers = numbers.rebalance()
    AsyncDataStream.ordered_wait(numbers, Held(), MINUTE, 5).sink_to(CollectSink())
    return environment.job_graph()


@pytest.mark.parametrize(
    ("unaligned", "chained"),
    [(False, True), (True, True), (True, False)],
    ids=["chained", "chained, unaligned", "alone, unaligned"],
)
async def test_a_checkpoint_waits_for_no_request_and_has_them_all(
    tmp_path: Path, unaligned: bool, chained: bool
) -> None:
    """Each number is in the result once, although some are requested again.

    Barriers come while no request is answered. (An aligned barrier from the network stays behind
    records without room.)
    """
    Held.answers, Held.asked = asyncio.Event(), []
    graph = held(unaligned=unaligned, chained=chained)
    alignment = Alignment.UNALIGNED if unaligned else Alignment.ALIGNED
    barrier = CheckpointBarrier(1, 0, CheckpointOptions(alignment=alignment))
    store, answers = store_in(tmp_path), Answers()
    async with environments() as workers:
        subtasks = deploy(graph, workers, store, answers)
        open_all(subtasks)
        tasks = [asyncio.create_task(subtask.run()) for subtask in subtasks.values()]
        while len(Held.asked) < 5:
            await asyncio.sleep(0)
        trigger(subtasks, barrier)
        await answers.until(reports=len(subtasks))
        assert not answers.declines
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert Held.asked == list(range(5))

        Held.answers.set()
        restored = RestoredState(store, answers.metadata(graph))
        again = deploy(graph, workers, store, Answers(), attempt=1, restored=restored)
        outcome = await run(again)
        assert outcome.collected["Collect"] == list(range(3000))
        assert Held.asked[:10] == [*range(5), *range(5)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Doubled(), 10), "the timeout of a request is 10: choose a Time"),
        ((Doubled(), Time.seconds(-1)), "the timeout of a request is"),
        ((Doubled(), MINUTE, 0), "the capacity is 0: choose at least 1 request"),
        ((Doubled(), MINUTE, True), "the capacity is True"),
        ((3, MINUTE), "async_invoke needs a callable"),
        ((len, MINUTE), "async_invoke of len is not a coroutine function"),
    ],
)
def test_invalid_arguments_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    numbers = StreamExecutionEnvironment().from_collection([1])
    with pytest.raises(ConfigurationError, match=message):
        AsyncDataStream.ordered_wait(numbers, *arguments)


def test_retries_need_a_strategy_and_an_end() -> None:
    numbers = StreamExecutionEnvironment().from_collection([1])
    with pytest.raises(ConfigurationError, match="the retry strategy is None"):
        AsyncDataStream.ordered_wait_with_retry(numbers, Doubled(), MINUTE, None)  # type: ignore[call-overload]
    retries = AsyncRetryStrategy.fixed_delay(1, 1, None, None)
    with pytest.raises(ConfigurationError, match="retried requests need a timeout"):
        AsyncDataStream.unordered_wait_with_retry(numbers, Doubled(), Time.seconds(0), retries)


RETRY = AsyncRetryStrategy.fixed_delay(1, 1, None, None)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        (
            "ordered_wait_with_retry",
            lambda stream: (stream, Doubled(), RETRY, MINUTE),
            "for timeout, which is for async_retry_strategy: .* timeout, async_retry_strategy, cap",
        ),
        (
            "unordered_wait_with_retry",
            lambda stream: (stream, Doubled(), MINUTE, 10, RETRY),
            "unordered_wait_with_retry .* for capacity, which is for async_retry_strategy",
        ),
        (
            "ordered_wait",
            lambda stream: (Doubled(), stream, MINUTE),
            "of type Doubled for data_stream, which is for async_function",
        ),
        (
            "unordered_wait",
            lambda stream: (stream, Doubled(), MINUTE, RETRY),
            "for capacity, which it does not take: the order is .*, timeout, capacity, output_type",
        ),
        ("ordered_wait", lambda stream: ([1], Doubled(), MINUTE), "of type list .* is no stream"),
        (
            "ordered_wait",
            lambda stream: (stream, Doubled(), Types.INT(), 5),
            "for timeout, which is for output_type",
        ),
    ],
)
def test_an_argument_in_the_place_of_another_is_named(
    method: str, arguments: Callable[[DataStream], tuple[Any, ...]], message: str
) -> None:
    stream = StreamExecutionEnvironment().from_collection([1])
    with pytest.raises(ConfigurationError, match=message):
        getattr(AsyncDataStream, method)(*arguments(stream))

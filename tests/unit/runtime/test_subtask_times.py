"""A subtask's times, and how it divides batches of records among turns of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import groupby
from typing import Any

import msgpack
import pytest

from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    RateLimitedSource,
    RuntimeContext,
    SinkFunction,
    Source,
    StreamExecutionEnvironment,
)
from flinknet.runtime import subtask as subtask_module
from flinknet.runtime.subtask import Subtask
from tests.unit.net.stranger import until
from tests.unit.runtime.running import SMALL, deploy, environments, run, run_job


class Held(Source):
    """A source of one record, and of another one once ``released``; in between it has none."""

    parallelism = 1
    released: asyncio.Event

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[Any]]:
        yield [1]
        with context.idle():
            await self.released.wait()
        yield [2]


class Stopped(SinkFunction):
    async def invoke(self, value: Any) -> None:
        await asyncio.get_running_loop().create_future()


class NoteTurn(SinkFunction):
    """A sink that records in which turn of the loop each record came."""

    turn: int
    noted: list[tuple[int, int]]

    def invoke(self, value: Any) -> None:
        NoteTurn.noted.append((NoteTurn.turn, value))


async def assert_only_idle(subtask: Subtask) -> None:
    """Check that only the idle time grows, once the subtask has ended its step."""

    def idle_ms() -> float:
        return subtask.statistics().times.accumulated_idle_time_ms

    # Between two reads without a turn of the loop, only the time of a wait in progress grows.
    await until(lambda: idle_ms() < idle_ms())
    before = subtask.statistics().times
    await until(lambda: idle_ms() > before.accumulated_idle_time_ms)
    after = subtask.statistics().times
    assert after.accumulated_busy_time_ms == pytest.approx(before.accumulated_busy_time_ms)
    assert after.accumulated_backpressured_time_ms == before.accumulated_backpressured_time_ms


async def test_a_stopped_sink_backpressures_the_source_and_is_busy() -> None:
    environment = StreamExecutionEnvironment()
    source = GeneratorSource(lambda number: number, 10**9)
    environment.from_source(source, name="numbers").rebalance().sink_to(Stopped())
    async with environments(2) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        producer, sink = subtasks.values()
        running = asyncio.create_task(run(subtasks))
        await until(
            lambda: (
                producer.statistics().times.is_backpressured and sink.io_metrics().records_in > 0
            )
        )
        [partition] = producer.partitions
        assert partition.statistics().queue_lengths.total > 0
        assert producer.gates == ()
        [gate] = sink.gates
        assert gate.statistics().queue_lengths.total > 0
        before = sink.statistics().times
        assert not before.is_backpressured
        await until(lambda: sink.io_metrics().busy_time_ms > before.accumulated_busy_time_ms)
        after = sink.statistics().times
        assert after.accumulated_idle_time_ms == before.accumulated_idle_time_ms
        shown = {seen.name for worker in workers for seen in worker.statistics().task_times}
        assert shown == set(subtasks)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert all(worker.statistics().task_times == () for worker in workers)


async def test_one_batch_at_a_time_leaves_its_gate() -> None:
    """I13: several gates are read as one, so while the sink holds a buffer no other buffer is
    taken."""
    environment = StreamExecutionEnvironment()
    streams = [
        environment.from_source(GeneratorSource(lambda number: number, 10**9), name=name)
        for name in ("first", "second", "third")
    ]
    streams[0].union(*streams[1:]).sink_to(Stopped()).name("held")
    async with environments(1) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        sink = subtasks["Sink: held (1/1)"]
        sources = [subtask for name, subtask in subtasks.items() if name.startswith("Source")]
        await until(lambda: all(one.statistics().times.is_backpressured for one in sources))
        gates = [gate.statistics() for gate in sink.gates]
        assert len(gates) == 3
        assert all(gate.queue_lengths.total > 0 for gate in gates)
        assert sum(channel.buffers_in for gate in gates for channel in gate.channels) == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_subtask_is_idle_when_all_its_gates_wait() -> None:
    """This holds after one of them has ended, and for a source without records."""
    Held.released = asyncio.Event()
    environment = StreamExecutionEnvironment()
    held = environment.from_source(Held(), name="held")
    ending = environment.from_source(GeneratorSource(lambda number: number, 10), name="ending")
    ended = ending.rebalance().union(held.rebalance()).map(lambda number: number).name("merged")
    ended.sink_to(CollectSink()).name("out")
    async with environments(1) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        running = asyncio.create_task(run(subtasks))
        merged = subtasks["merged -> Sink: out (1/1)"]
        source = subtasks["Source: ending (1/1)"]
        await until(lambda: merged.io_metrics().records_in == 11)
        await until(lambda: all(part.released for part in source.partitions))
        await assert_only_idle(merged)
        await assert_only_idle(subtasks["Source: held (1/1)"])
        Held.released.set()
        outcome = await running
    assert sorted(outcome.collected["out"]) == sorted([1, 2, *range(10)])
    result = outcome.results["merged -> Sink: out (1/1)"]
    assert not isinstance(result, BaseException)
    assert result.idle_time_ms >= 0
    assert result.backpressured_time_ms == 0


async def test_a_source_between_two_records_of_its_schedule_is_idle() -> None:
    environment = StreamExecutionEnvironment()
    source = RateLimitedSource(GeneratorSource(lambda number: number, 3), 100.0)
    environment.from_source(source, name="slow").sink_to(CollectSink()).name("out")
    outcome = await run_job(environment)
    [result] = outcome.results.values()
    assert not isinstance(result, BaseException)
    assert result.idle_time_ms > 0


async def test_a_subtask_that_is_not_run_yet_is_idle() -> None:
    environment = StreamExecutionEnvironment()
    environment.from_collection([1]).rebalance().sink_to(CollectSink()).name("out")
    async with environments(1) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        for subtask in subtasks.values():
            subtask.open()
        for subtask in subtasks.values():
            await assert_only_idle(subtask)
            subtask.close()


async def test_records_are_processed_a_buffer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: a turn of the loop processes all records of one buffer, never those of two."""
    monkeypatch.setattr(subtask_module, "TURN_S", 60.0)
    NoteTurn.turn = 0
    NoteTurn.noted = []

    async def count_turns() -> None:
        while True:
            NoteTurn.turn += 1
            await asyncio.sleep(0)

    environment = StreamExecutionEnvironment().set_buffer_timeout(-1)
    environment.get_config().disable_task_threads()
    source = GeneratorSource(lambda number: number, 5_000)
    environment.from_source(source, name="numbers").rebalance().sink_to(NoteTurn())
    async with environments(1) as workers:
        subtasks = deploy(environment.job_graph(), workers)
        counting = asyncio.create_task(count_turns())
        await run(subtasks)
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)
    assert [value for _, value in NoteTurn.noted] == list(range(5_000))
    batches = [
        [value for _, value in group]
        for _, group in groupby(NoteTurn.noted, key=lambda noted: noted[0])
    ]
    sizes = [sum(len(msgpack.packb(value)) for value in batch) for batch in batches]
    assert max(sizes) <= SMALL.segment_bytes
    # The first ones are cut, as the time of a record is not known yet.
    assert min(sizes[5:-1]) > SMALL.segment_bytes // 2

"""The waiting times of an environment's readers and writers are measured for each, or for their
task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from flinknet.buffer.availability import Availability
from flinknet.config import NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import LocalProtocolError
from flinknet.metrics.task_times import TaskTimes, TaskTimesStatistics
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.task_clock import task_time
from tests.unit.net.stranger import until

CONFIG = NetworkConfig(segment_bytes=1024, network_memory_bytes=1024 * 32)


@pytest.fixture
async def environment() -> AsyncIterator[NetworkEnvironment]:
    async with NetworkEnvironment(config=CONFIG) as environment:
        yield environment


def times(environment: NetworkEnvironment) -> TaskTimesStatistics:
    """Return the times of the only task."""
    [only] = environment.statistics().task_times
    return only


async def cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_writer_blocked_within_a_record_is_hard_backpressured(
    environment: NetworkEnvironment,
) -> None:
    """D5: no such time is counted while a buffer is free."""
    partition = environment.create_result_partition("p", subpartitions=1)
    writer = environment.create_record_writer(partition)
    await writer.emit("small")
    seen = times(environment)
    assert (seen.name, seen.is_backpressured) == ("p", False)
    assert seen.accumulated_backpressured_time_ms == 0
    emitting = asyncio.create_task(writer.emit("x" * 100_000))
    await until(lambda: times(environment).is_backpressured)
    await until(lambda: times(environment).max_hard_backpressured_time_ms > 0)
    assert times(environment).max_soft_backpressured_time_ms == 0
    await cancelled(emitting)
    assert not times(environment).is_backpressured


async def test_a_writer_blocked_before_a_record_is_soft_backpressured(
    environment: NetworkEnvironment,
) -> None:
    writer = environment.create_record_writer(
        environment.create_result_partition("p", subpartitions=1)
    )
    emitting = asyncio.create_task(writer.emit_many(["x" * 100] * 1_000))
    await until(lambda: times(environment).max_soft_backpressured_time_ms > 0)
    assert times(environment).is_backpressured
    assert times(environment).max_hard_backpressured_time_ms == 0
    await cancelled(emitting)
    written = writer.records_out
    blocked_ms = times(environment).accumulated_backpressured_time_ms
    assert times(environment).accumulated_backpressured_time_ms == blocked_ms
    assert 0 < written < 1_000


async def test_a_reader_without_data_and_a_writer_at_its_end_are_idle(
    environment: NetworkEnvironment,
) -> None:
    reader = environment.create_record_reader(
        environment.create_input_gate([PartitionLocation(environment.address, "p", 0)], name="in")
    )
    reading = asyncio.create_task(reader.next_batch())
    await until(lambda: times(environment).accumulated_idle_time_ms > 0)
    assert (times(environment).name, times(environment).is_backpressured) == ("in", False)
    writer = environment.create_record_writer(
        environment.create_result_partition("p", subpartitions=1)
    )
    await writer.emit("record")
    finishing = asyncio.create_task(writer.finish())
    batch = await reading
    assert batch is not None
    assert list(batch) == ["record"]
    by_name = {seen.name: seen for seen in environment.statistics().task_times}
    assert by_name.keys() == {"in", "p"}
    assert await reader.next_batch() is None
    await finishing
    reader.close()
    assert environment.statistics().task_times == ()


async def test_gates_and_partitions_of_one_task_share_one_account(
    environment: NetworkEnvironment,
) -> None:
    """The account is reported until the last of the task's partitions and gates is released."""
    task = TaskTimes("task", task_time())
    partitions = [
        environment.create_result_partition(name, subpartitions=1) for name in ("first", "second")
    ]
    writers = [
        environment.create_record_writer(partition, task_times=task) for partition in partitions
    ]
    blocked = [asyncio.create_task(writer.emit("x" * 100_000)) for writer in writers]
    await until(lambda: times(environment).max_hard_backpressured_time_ms > 0)
    for task_blocked in blocked:
        assert times(environment).is_backpressured
        await cancelled(task_blocked)
    assert not times(environment).is_backpressured
    for partition in partitions:
        assert times(environment).name == "task"
        partition.release()
    assert environment.statistics().task_times == ()


async def in_another_loop(use: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run a coroutine in a thread with an event loop of its own."""
    await asyncio.to_thread(lambda: asyncio.run(use()))


@pytest.mark.parametrize("used", ["writer", "reader", "topic", "wait", "emit", "end"])
async def test_an_environment_is_refused_in_another_loop(
    environment: NetworkEnvironment, used: str
) -> None:
    """It would wait forever there for events of its own loop."""
    writer = environment.create_record_writer(
        environment.create_result_partition("p", subpartitions=1)
    )

    async def use() -> None:
        match used:
            case "writer":
                async with environment.open_writer("other"):
                    pass
            case "reader":
                async with environment.open_reader(environment.address, "p"):
                    pass
            case "topic":
                async with environment.open_topic("topic"):
                    pass
            case "wait":
                await environment.wait(Availability())
            case "emit":
                await writer.emit("x" * 100_000)
            case "end":
                await environment.__aexit__(None, None, None)

    with pytest.raises(LocalProtocolError, match="in another event loop than the one in which it"):
        await in_another_loop(use)
    assert environment.statistics().partitions, "it goes on in its own"


async def test_a_thread_without_a_loop_may_ask_where_it_listens(
    environment: NetworkEnvironment,
) -> None:
    assert await asyncio.to_thread(lambda: environment.address) == environment.address

"""A writer with consumers that come late, come and go, or never come."""

from __future__ import annotations

import asyncio
import logging

import pytest

from flinknet.buffer.availability import Availability
from flinknet.errors import (
    ConsumerCancelledError,
    ConsumerNotFoundError,
    PartitionNotFoundError,
    ProducerFailedError,
)
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.records.partitioner import RebalancePartitioner
from tests.unit.net.stranger import assert_nothing_is_held, quick, until

SHORT = {"rendezvous_timeout_ms": 20.0, "rendezvous_notice_ms": 5.0}


async def write_for_ever(environment: NetworkEnvironment, subpartitions: int = 1) -> None:
    async with environment.open_writer(
        "p", subpartitions=subpartitions, partitioner=RebalancePartitioner()
    ) as writer:
        while True:
            await writer.emit("a record of some length")


async def read_all(environment: NetworkEnvironment, address: str, subpartition: int = 0) -> None:
    async with environment.open_reader(address, "p", subpartition=subpartition) as reader:
        async for _ in reader:
            pass


async def test_where_no_peer_is_given_up_a_writer_waits_for_a_consumer_that_is_held_up() -> None:
    """Without a heartbeat timeout the writer waits far beyond the deadline."""
    config = quick(**SHORT, heartbeat_timeout_ms=0.0)
    async with NetworkEnvironment(config=config) as environment:
        writing = asyncio.create_task(write_for_ever(environment))
        await asyncio.wait([writing], timeout=5 * SHORT["rendezvous_timeout_ms"] / 1000)
        assert not writing.done()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing


@pytest.mark.parametrize("what", ["is blocked", "finishes"])
async def test_a_writer_without_a_reader_fails_at_its_deadline(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It logs once that it waits, and its error says how to fix it."""
    async with NetworkEnvironment(config=quick(**SHORT)) as environment:
        with pytest.raises(ConsumerNotFoundError) as raised:
            if what == "is blocked":
                await write_for_ever(environment, 2)
            else:
                async with environment.open_writer(
                    "p", subpartitions=2, partitioner=RebalancePartitioner()
                ):
                    pass
        assert "no consumer requested subpartition 0, 1 of partition p" in str(raised.value)
        assert "rendezvous_timeout_ms" in str(raised.value)
        assert "start its consumer" in str(raised.value)
        lines = [line for line in caplog.messages if "waits for its consumer" in line]
        assert len(lines) == 1
        with pytest.raises(ProducerFailedError, match="no consumer requested subpartition 0, 1"):
            await read_all(environment, environment.address)
        await assert_nothing_is_held(environment)


@pytest.mark.parametrize("remote", [False, True])
async def test_the_readers_that_came_hear_for_whom_the_writer_waited_in_vain(remote: bool) -> None:
    async with (
        NetworkEnvironment(config=quick(**SHORT)) as there,
        NetworkEnvironment(config=quick()) as here,
    ):
        partition = there.create_result_partition("p", subpartitions=2)
        reading = asyncio.create_task(read_all(here if remote else there, there.address))
        await until(lambda: partition.readers_missing == 1)
        writer = there.create_record_writer(partition, RebalancePartitioner())
        with pytest.raises(ConsumerNotFoundError, match="subpartition 1 of partition p"):
            while True:
                await writer.emit("a record of some length")
        with pytest.raises(ProducerFailedError, match="no consumer requested subpartition 1"):
            await reading


async def test_a_consumer_that_comes_late_reads_everything() -> None:
    """The consumer may come any time after the writer was blocked, before the deadline.

    Then the deadline no longer applies.
    """
    async with (
        NetworkEnvironment(config=quick(rendezvous_timeout_ms=60_000.0)) as there,
        NetworkEnvironment(config=quick()) as here,
    ):
        records = list(range(100_000))
        async with asyncio.TaskGroup() as group:

            async def write() -> None:
                async with there.open_writer("p") as writer:
                    await writer.emit_many(records)

            group.create_task(write())
            await until(lambda: any(part.pool_usage >= 1 for part in there.statistics().partitions))
            async with here.open_reader(there.address, "p") as reader:
                assert [record async for record in reader] == records


async def test_a_reader_that_came_and_went_is_not_waited_for() -> None:
    async with NetworkEnvironment(config=quick(rendezvous_timeout_ms=60_000.0)) as environment:
        writing = asyncio.create_task(write_for_ever(environment))
        async with environment.open_reader(environment.address, "p") as reader:
            await reader.next_batch()
        with pytest.raises(ConsumerCancelledError):
            await writing


async def test_backpressure_by_a_reader_that_is_there_has_no_deadline() -> None:
    async with NetworkEnvironment(config=quick(**SHORT)) as environment:
        async with environment.open_reader(environment.address, "p"):
            writing = asyncio.create_task(write_for_ever(environment))
            await until(
                lambda: any(part.pool_usage >= 1 for part in environment.statistics().partitions)
            )
            await asyncio.wait([writing], timeout=0.1)  # five times the deadline
            assert not writing.done()
        with pytest.raises(ConsumerCancelledError):
            await writing


async def test_without_a_deadline_a_writer_waits_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = quick(rendezvous_timeout_ms=0.0, rendezvous_notice_ms=1.0)
    async with NetworkEnvironment(config=config) as environment:
        writing = asyncio.create_task(write_for_ever(environment))
        await until(lambda: bool(caplog.messages))
        assert not writing.done()
        writing.cancel()
        await asyncio.wait([writing])
        await assert_nothing_is_held(environment)


async def test_a_cancelled_wait_for_a_reader_leaves_no_timer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No log line follows."""
    caplog.set_level(logging.INFO)
    async with NetworkEnvironment(config=quick(rendezvous_notice_ms=300.0)) as environment:
        writing = asyncio.create_task(write_for_ever(environment))
        await until(
            lambda: any(part.pool_usage >= 1 for part in environment.statistics().partitions)
        )
        writing.cancel()
        await asyncio.wait([writing])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await environment.wait(Availability())
        assert caplog.messages == []


async def test_a_waiting_request_learns_that_the_worker_was_closed() -> None:
    """It learns this at once, and does not get a lost connection instead."""
    async with NetworkEnvironment(config=quick()) as here:
        async with NetworkEnvironment(config=quick()) as there:
            address = there.address
            reading = asyncio.create_task(read_all(here, address))
            await until(lambda: len(there.statistics().connections) == 1)
            await until(lambda: len(there.statistics().connections[0].readers) == 1)
        with pytest.raises(PartitionNotFoundError, match="closed before the partition"):
            await reading

"""Readers join and leave a topic while it is written; the policy decides about a slow reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flinknet.errors import (
    ConfigurationError,
    LocalProtocolError,
    ProducerFailedError,
    SerializationError,
)
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.topic_writer import SlowReaders, TopicWriter
from flinknet.records.reader import RecordReader

PAYLOAD = b"x" * 10_000


@asynccontextmanager
async def reader_of(
    here: NetworkEnvironment, there: NetworkEnvironment, topic: TopicWriter
) -> AsyncIterator[RecordReader]:
    """Yield a reader that has joined."""
    joined = topic.statistics().joined_total
    async with there.open_reader(here.address, "ticks") as reader:
        while topic.statistics().joined_total == joined:
            await asyncio.sleep(0)
        yield reader


@asynccontextmanager
async def topic_of(
    policy: SlowReaders, limit: int = 10
) -> AsyncIterator[tuple[NetworkEnvironment, NetworkEnvironment, TopicWriter]]:
    async with (
        NetworkEnvironment() as here,
        NetworkEnvironment() as there,
        here.open_topic("ticks", slow_readers=policy, queue_records_max=limit) as topic,
    ):
        yield here, there, topic


@pytest.mark.parametrize("policy", ["wait", "drop_oldest", "latest", "disconnect"])
async def test_a_new_reader_gets_the_records_from_then_on(policy: SlowReaders) -> None:
    async with topic_of(policy) as (here, there, topic):
        await topic.emit("nobody is there")
        async with reader_of(here, there, topic) as first:
            await topic.emit(1)
            assert await anext(first) == 1
            async with reader_of(here, there, topic) as second:
                await topic.emit(2)
                assert (await anext(first), await anext(second)) == (2, 2)
            while topic.statistics().left_total == 0:  # noticed when something is written for it
                await topic.emit(3)
                await asyncio.sleep(0)
            assert await anext(first) == 3
            assert topic.statistics().readers == 1
            assert topic.statistics().joined_total == 2


async def stalled(topic: TopicWriter, records: int) -> None:
    for number in range(records):
        await topic.emit((number, PAYLOAD))
        await asyncio.sleep(0)


async def test_the_oldest_records_are_dropped_for_the_slow_reader_only() -> None:
    async with (
        topic_of("drop_oldest") as (here, there, topic),
        reader_of(here, there, topic),
        reader_of(here, there, topic) as fast,
    ):
        for number in range(3000):
            await topic.emit((number, PAYLOAD))
            assert (await anext(fast))[0] == number
        counts = topic.statistics()
        assert counts.records_dropped_total > 0
        assert counts.records_queued == 10
        assert counts.readers == 2


async def test_a_slow_reader_has_the_latest_value() -> None:
    async with topic_of("latest") as (here, there, topic), reader_of(here, there, topic) as reader:
        await stalled(topic, 3000)
        assert topic.statistics().records_queued == 1
        number = 0
        while number < 2999:
            number, _ = await anext(reader)


async def test_a_slow_reader_is_disconnected_and_told_why() -> None:
    async with (
        topic_of("disconnect") as (here, there, topic),
        reader_of(here, there, topic) as reader,
    ):
        await stalled(topic, 3000)
        assert topic.statistics().disconnected_total == 1
        assert topic.statistics().readers == 0
        with pytest.raises(ProducerFailedError, match="let 10 records wait"):
            async for _ in reader:
                pass


async def test_by_default_all_wait_for_the_slowest() -> None:
    async with topic_of("wait") as (here, there, topic), reader_of(here, there, topic) as reader:
        writing = asyncio.create_task(stalled(topic, 3000))
        numbers = [(await anext(reader))[0] for _ in range(3000)]
        await writing
        assert numbers == list(range(3000))
        assert topic.statistics().records_dropped_total == 0


@pytest.mark.parametrize("policy", ["wait", "drop_oldest"])
async def test_the_end_is_the_readers_end(policy: SlowReaders) -> None:
    async with NetworkEnvironment() as here, NetworkEnvironment() as there:
        reading: asyncio.Task[list[int]] | None = None

        async def read() -> list[int]:
            async with there.open_reader(here.address, "ticks") as reader:
                return [number async for number in reader]

        reading = asyncio.create_task(read())
        async with here.open_topic("ticks", slow_readers=policy) as topic:
            while not topic.statistics().readers:
                await asyncio.sleep(0)
            await topic.emit(1)
        assert await reading == [1]


@pytest.mark.parametrize("policy", ["wait", "drop_oldest"])
async def test_an_error_inside_is_what_readers_get(policy: SlowReaders) -> None:
    async with NetworkEnvironment() as here, NetworkEnvironment() as there:
        with pytest.raises(ValueError, match="no more"):
            async with (
                here.open_topic("ticks", slow_readers=policy) as topic,
                reader_of(here, there, topic) as reader,
            ):
                await topic.emit(1)
                assert await anext(reader) == 1
                raise ValueError("no more")


async def test_unserializable_records_are_refused() -> None:
    async with topic_of("wait") as (here, there, topic), reader_of(here, there, topic):
        with pytest.raises(SerializationError):
            await topic.emit(object())


async def test_a_wrong_configuration_is_refused() -> None:
    async with NetworkEnvironment() as here:
        with pytest.raises(ConfigurationError, match="queue_records_max is 0"):
            async with here.open_topic("ticks", queue_records_max=0):
                pass
        with pytest.raises(ConfigurationError, match="slow_readers is 'none'"):
            async with here.open_topic("ticks", slow_readers="none"):  # type: ignore[arg-type]
                pass
        async with here.open_topic("ticks"):
            with pytest.raises(LocalProtocolError, match="already registered"):
                async with here.open_topic("ticks"):
                    pass


async def test_an_environment_counts_its_topics_while_they_are_open() -> None:
    async with NetworkEnvironment() as here:
        async with here.open_topic("ticks"):
            (counts,) = here.statistics().topics
            assert (counts.name, counts.readers) == ("ticks", 0)
        assert here.statistics().topics == ()

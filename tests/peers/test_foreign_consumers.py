"""Peers written from the specification read the data that flinknet writes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from flinknet import (
    BroadcastPartitioner,
    HashPartitioner,
    NetworkConfig,
    NetworkEnvironment,
    RebalancePartitioner,
)
from flinknet.config import WireLimits
from tests.peers.programs import CONFIG, SEGMENT_BYTES, Language, consumer
from tests.peers.rows import FORMS, LONG, LONG_FORMS, TYPES, VALUES

NUMBERS = list(range(2_000))
TURNS = 2_000
"""Loop turns after which a writer that may continue has done so."""


async def test_every_kind_of_record_arrives(
    language: Language, environment: NetworkEnvironment
) -> None:
    async with consumer(language, environment.address, "p") as foreigner:
        async with environment.open_writer("p", types=TYPES) as writer:
            for value in VALUES:
                await writer.emit(value)
        assert await foreigner.records() == ({0: FORMS}, "complete")


@pytest.mark.parametrize("buffer_timeout_ms", [0.0, -1.0])
async def test_records_over_several_buffers_arrive(
    language: Language, environment: NetworkEnvironment, buffer_timeout_ms: float
) -> None:
    """Records are cut at any byte, with a flush after every record or without any."""
    async with consumer(language, environment.address, "p", credit=1) as foreigner:
        async with environment.open_writer("p", buffer_timeout_ms=buffer_timeout_ms) as writer:
            for _ in range(5):
                for record in LONG:
                    await writer.emit(record)
        assert await foreigner.records() == ({0: LONG_FORMS * 5}, "complete")


async def test_several_channels_share_one_connection(
    language: Language, environment: NetworkEnvironment
) -> None:
    """Each record arrives in the subpartition of its key, in order."""
    partitioner = HashPartitioner(key=lambda number: number % 10)
    async with consumer(language, environment.address, "p", 0, 1, 2) as foreigner:
        async with environment.open_writer("p", subpartitions=3, partitioner=partitioner) as writer:
            await writer.emit_many(NUMBERS)
        found, end = await foreigner.records()
    assert end == "complete"
    assert sorted(number for part in found.values() for number in part) == NUMBERS
    assert all(part == sorted(part) for part in found.values())
    keys = [{number % 10 for number in part} for part in found.values()]
    assert sum(map(len, keys)) == 10


async def test_a_partition_without_records_is_complete(
    language: Language, environment: NetworkEnvironment
) -> None:
    async with consumer(language, environment.address, "p", 0, 1) as foreigner:
        async with environment.open_writer(
            "p", subpartitions=2, partitioner=RebalancePartitioner()
        ):
            pass
        assert await foreigner.records() == ({}, "complete")


async def test_a_consumer_without_buffers_of_its_own_is_told_of_the_backlog(
    language: Language, environment: NetworkEnvironment
) -> None:
    """With an initial credit of 0, the producer announces its backlog first."""
    async with consumer(language, environment.address, "p", 0, 1, credit=0) as foreigner:
        async with environment.open_writer(
            "p", subpartitions=2, partitioner=RebalancePartitioner()
        ) as writer:
            for number in NUMBERS:
                await writer.emit(number)
        found, end = await foreigner.records()
    assert end == "complete"
    assert sorted([*found[0], *found[1]]) == NUMBERS


async def test_a_slow_consumer_stops_only_its_own_writer(
    language: Language, environment: NetworkEnvironment
) -> None:
    """A slow consumer stops only its own writer, and loses nothing when it continues."""
    emitted = 0

    async def write() -> None:
        nonlocal emitted
        async with environment.open_writer("slow") as writer:
            for number in range(20_000):
                await writer.emit((number, "x" * 20))
                emitted += 1

    async with (
        consumer(language, environment.address, "slow", pause_after=3) as slow,
        asyncio.TaskGroup() as group,
    ):
        writing = group.create_task(write())
        while "paused" not in await slow.line():
            pass
        still, last = 0, -1
        while still < TURNS:
            await asyncio.sleep(0)
            still = still + 1 if emitted == last else 0
            last = emitted
        assert emitted < 20_000
        assert not writing.done()
        async with consumer(language, environment.address, "p", worker_id="other") as other:
            async with environment.open_writer("p") as writer:
                await writer.emit_many(NUMBERS)
            assert await other.records() == ({0: NUMBERS}, "complete")
        await slow.say("go on")
        found, end = await slow.records()
        assert end == "complete"
        assert found[0][-1] == [19_999, "x" * 20]


@pytest.mark.parametrize("theirs", [0, 1], ids=["flinknet asks", "both ask"])
@pytest.mark.parametrize("secret", [None, "gehéim 🔑"])
async def test_checksums_and_secrets_are_understood(
    language: Language, theirs: int, secret: str | None
) -> None:
    config = replace(CONFIG, checksums="on")
    async with (
        NetworkEnvironment(config=config, secret=secret) as environment,
        consumer(
            language, environment.address, "p", 0, 1, checksums=theirs, secret=secret or ""
        ) as foreigner,
    ):
        async with environment.open_writer(
            "p", subpartitions=2, partitioner=BroadcastPartitioner()
        ) as writer:
            for record in LONG:
                await writer.emit(record)
        assert await foreigner.records() == ({0: LONG_FORMS, 1: LONG_FORMS}, "complete")


async def test_the_foreign_side_may_ask_for_checksums(
    language: Language, environment: NetworkEnvironment
) -> None:
    async with consumer(language, environment.address, "p", checksums=1) as foreigner:
        async with environment.open_writer("p") as writer:
            await writer.emit_many(NUMBERS)
        assert await foreigner.records() == ({0: NUMBERS}, "complete")


async def test_heartbeats_keep_a_silent_connection(language: Language) -> None:
    """A connection survives a pause of the writer that is longer than ``heartbeat_timeout_ms``."""
    config = NetworkConfig(
        segment_bytes=SEGMENT_BYTES,
        network_memory_bytes=1 << 20,
        heartbeat_interval_ms=20,
        wire=WireLimits(heartbeats_per_minute_max=6_000),
        heartbeat_timeout_ms=1_000,
    )
    loop = asyncio.get_running_loop()
    async with (
        NetworkEnvironment(config=config) as environment,
        consumer(language, environment.address, "p", heartbeat_ms=100) as foreigner,
    ):
        async with environment.open_writer("p") as writer:
            await writer.emit(1)
            passed = loop.create_future()
            loop.call_later(1.5, passed.set_result, None)
            await passed
            await writer.emit(2)
        assert await foreigner.records() == ({0: [1, 2]}, "complete")


async def test_a_failed_producer_is_told_with_its_cause(
    language: Language, environment: NetworkEnvironment
) -> None:
    async with consumer(language, environment.address, "p") as foreigner:
        with pytest.raises(ValueError, match="π"):
            async with environment.open_writer("p") as writer:
                await writer.emit(1)
                raise ValueError("π is not 3")
        _, end = await foreigner.records()
    assert end["code"] == 6
    assert "π is not 3" in end["text"]

"""Flinknet reads the data of peers that were written from the specification."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from flinknet import NetworkConfig, NetworkEnvironment
from flinknet.errors import (
    ConsumerCancelledError,
    PartitionNotFoundError,
    ProducerFailedError,
    RemoteError,
)
from tests.peers.programs import CONFIG, SEGMENT_BYTES, Language, producer
from tests.peers.rows import FORMS, LONG, LONG_FORMS, TYPES, VALUES

NUMBERS = list(range(2_000))


async def read(
    environment: NetworkEnvironment, address: str, subpartition: int = 0, name: str = "p"
) -> list[Any]:
    """Return all records of a subpartition."""
    async with environment.open_reader(
        address, name, subpartition=subpartition, types=TYPES
    ) as reader:
        return [record async for record in reader]


async def read_all(
    address: str, subpartitions: int = 1, config: NetworkConfig = CONFIG, secret: str | None = None
) -> list[list[Any]]:
    """Read every subpartition over one connection, and leave."""
    async with (
        NetworkEnvironment(config=config, secret=secret) as environment,
        asyncio.TaskGroup() as group,
    ):
        reading = [
            group.create_task(read(environment, address, subpartition))
            for subpartition in range(subpartitions)
        ]
    return [await task for task in reading]


@pytest.mark.parametrize("buffer_bytes", [1, 7, SEGMENT_BYTES])
async def test_every_kind_of_record_arrives(language: Language, buffer_bytes: int) -> None:
    """Records are cut at every byte, or hardly ever; the peer on Node pads arrays and maps."""
    async with producer(language, {"p": [FORMS]}, buffer_bytes=buffer_bytes) as (peer, address):
        assert await read_all(address) == [VALUES]
        assert await peer.end() == "complete"


async def test_records_over_several_buffers_arrive(language: Language) -> None:
    async with producer(language, {"p": [LONG_FORMS * 5]}) as (peer, address):
        assert await read_all(address) == [LONG * 5]
        assert await peer.end() == "complete"


@pytest.mark.parametrize("buffers_per_channel", [0, 2])
async def test_several_channels_share_one_connection(
    language: Language, buffers_per_channel: int
) -> None:
    """Channels have buffers of their own, or the producer announces its backlog."""
    config = replace(CONFIG, buffers_per_channel=buffers_per_channel)
    parts: list[list[Any]] = [NUMBERS, [], LONG_FORMS, NUMBERS[::-1]]
    async with producer(language, {"p": parts}, buffer_bytes=200) as (peer, address):
        assert await read_all(address, 4, config) == [NUMBERS, [], LONG, NUMBERS[::-1]]
        assert await peer.end() == "complete"


async def test_a_slow_reader_loses_nothing(language: Language) -> None:
    """A reader that pauses after one record, until another channel is read, loses nothing."""
    config = replace(CONFIG, floating_buffers_per_gate=1, buffers_per_channel=1)
    partitions = {"slow": [NUMBERS], "p": [NUMBERS]}
    async with producer(language, partitions, buffer_bytes=64) as (peer, address):
        async with (
            NetworkEnvironment(config=config) as environment,
            environment.open_reader(address, "slow") as slow,
        ):
            first = await anext(slow)
            assert await read(environment, address) == NUMBERS
            assert [first] + [record async for record in slow] == NUMBERS
        assert await peer.end() == "complete"


@pytest.mark.parametrize("theirs", [0, 1])
@pytest.mark.parametrize("ours", ["off", "on"])
@pytest.mark.parametrize("secret", [None, "gehéim 🔑"])
async def test_checksums_and_secrets_are_understood(
    language: Language, theirs: int, ours: Any, secret: str | None
) -> None:
    config = replace(CONFIG, checksums=ours)
    options: dict[str, Any] = {"checksums": theirs, "secret": secret or ""}
    async with producer(language, {"p": [LONG_FORMS]}, **options) as (peer, address):
        assert await read_all(address, config=config, secret=secret) == [LONG]
        assert await peer.end() == "complete"


async def test_a_producer_may_dial(language: Language) -> None:
    """A reader uses the connection that its producer has dialled, and dials none."""
    async with AsyncExitStack() as later:
        async with NetworkEnvironment(config=CONFIG) as environment:
            dialled = producer(language, {"p": [NUMBERS]}, dial=environment.address)
            peer, address = await later.enter_async_context(dialled)
            assert await read(environment, address) == NUMBERS
        assert await peer.end() == "complete"


ERRORS: dict[int, type[RemoteError]] = {
    4: PartitionNotFoundError,
    6: ProducerFailedError,
    7: ConsumerCancelledError,
    8: RemoteError,
    99: RemoteError,
}


@pytest.mark.parametrize(("code", "error"), ERRORS.items())
async def test_an_error_ends_its_channel_only(
    language: Language, code: int, error: type[RemoteError]
) -> None:
    """An error has the type of its code and its text; an unknown code is a general error."""
    errors = {"bad": (code, "the cause: π")}
    async with producer(language, {"p": [NUMBERS]}, errors=errors) as (peer, address):
        async with (
            NetworkEnvironment(config=CONFIG) as environment,
            environment.open_reader(address, "p") as reader,
        ):
            records = [await anext(reader)]
            with pytest.raises(error, match="the cause: π"):
                await read(environment, address, name="bad")
            assert records + [record async for record in reader] == NUMBERS
        assert await peer.end() == "complete"


async def test_a_subpartition_is_read_once(language: Language) -> None:
    async with producer(language, {"p": [NUMBERS]}) as (peer, address):
        async with (
            NetworkEnvironment(config=CONFIG) as environment,
            environment.open_reader(address, "p") as reader,
        ):
            records = [await anext(reader)]
            with pytest.raises(RemoteError, match="taken"):
                await read(environment, address)
            with pytest.raises(PartitionNotFoundError):
                await read(environment, address, 1)
            assert records + [record async for record in reader] == NUMBERS
        assert await peer.end() == "complete"

"""A writer that fails before its reader has come.

The reader gets the writer's error at once and once, wherever it looks for the writer, and no error
that is out of date.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import (
    FlinknetError,
    KeptError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
)
from flinknet.net.coordinator_names import CoordinatorNames
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.partition_directory import PartitionDirectory
from flinknet.net.partition_names import FailedProducer, PartitionNames
from flinknet.records.partitioner import BroadcastPartitioner
from flinknet.wire.codec import encode
from flinknet.wire.messages import MessageType
from tests.free_port import free_port
from tests.unit.cluster.control_plane import CONFIG, serve_control_plane
from tests.unit.net.stranger import Host

IMPATIENT = NetworkConfig(rendezvous_timeout_ms=1.0, rendezvous_notice_ms=0.0)
BOOM = KeptError(ProducerFailedError, "the producer failed: ValueError: boom")
FAILED = pytest.raises(ProducerFailedError, match="the producer failed: ValueError: boom")


@pytest.fixture(params=["a directory", "a coordinator"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Yield each place where names are kept: a directory and a coordinator."""
    if request.param == "a directory":
        yield str(tmp_path)
        return
    async with serve_control_plane(CONFIG) as served:
        yield f"http://{served.address}/#token={served.token}"


def names_in(place: str) -> PartitionNames:
    kind = CoordinatorNames if place.startswith("http") else PartitionDirectory
    return kind(place, "embedded")


@contextmanager
def failing() -> Iterator[None]:
    """Let the block fail, and expect its error."""
    with pytest.raises(ValueError, match="boom"):
        yield
        raise ValueError("boom")


async def read(environment: NetworkEnvironment, *where: str, subpartition: int = 0) -> list[object]:
    async with environment.open_reader(*where, subpartition=subpartition) as reader:
        return [record async for record in reader]


async def fail_to_write(environment: NetworkEnvironment) -> None:
    with failing():
        async with environment.open_writer("p") as writer:
            await writer.emit(1)
            raise ValueError("boom")


async def fail_a_topic(environment: NetworkEnvironment) -> None:
    with failing():
        async with environment.open_topic("p") as topic:
            await topic.emit(1)
            raise ValueError("boom")


FAILS = {"writer": fail_to_write, "topic": fail_a_topic}


@pytest.mark.parametrize("kind", FAILS)
async def test_a_reader_elsewhere_hears_it_though_the_environment_is_gone(
    place: str, kind: str
) -> None:
    async with NetworkEnvironment(directory=place) as reading:
        async with NetworkEnvironment(directory=place) as writing:
            await FAILS[kind](writing)
        with FAILED:
            await read(reading, "p")
        if kind == "topic":  # any number of readers may come to a topic
            with FAILED:
                await read(reading, "p")


@pytest.mark.parametrize("reader_is", ["local", "remote"])
@pytest.mark.parametrize("kind", FAILS)
async def test_a_reader_that_knows_the_address_hears_it_as_long_as_the_environment_is_there(
    kind: str, reader_is: str
) -> None:
    async with NetworkEnvironment() as writing, NetworkEnvironment() as other:
        await FAILS[kind](writing)
        reading = writing if reader_is == "local" else other
        for _ in range(2):
            with FAILED:
                await read(reading, writing.address, "p")


async def test_each_reader_that_had_not_come_hears_it_once(place: str) -> None:
    """A reader that had come gets it over its connection, and leaves no error for the next
    reader."""
    async with (
        NetworkEnvironment(directory=place) as writing,
        NetworkEnvironment() as early_reading,
        NetworkEnvironment(directory=place, config=IMPATIENT) as reading,
    ):
        arrived = asyncio.Event()

        async def early() -> None:
            async with early_reading.open_reader(writing.address, "p", subpartition=1) as reader:
                assert await anext(reader) == 1
                arrived.set()
                with FAILED:
                    await anext(reader)

        with failing():
            async with writing.open_writer(
                "p", subpartitions=3, partitioner=BroadcastPartitioner()
            ) as writer:
                await writer.emit(1)
                writer.flush()
                there = asyncio.ensure_future(early())
                await arrived.wait()
                raise ValueError("boom")
        await there
        for subpartition in (0, 2):
            with FAILED:
                await read(reading, "p", subpartition=subpartition)
        for subpartition in range(3):
            with pytest.raises(PartitionRequestTimeoutError):
                await read(reading, "p", subpartition=subpartition)


async def test_a_producer_that_comes_again_takes_its_failure_back(place: str) -> None:
    names = names_in(place)

    async def fail(worker_id: str) -> None:
        async with names.published(
            "p", worker_id, "127.0.0.1:1", lambda: FailedProducer(BOOM, [0])
        ):
            pass

    await fail("a")
    async with names.published("p", "a", "127.0.0.1:2"):
        pass
    assert await names.look_up("p", 1, 0.0) == []
    await fail("a")
    async with names.published("p", "b", "127.0.0.1:2"):
        with FAILED:
            await names.look_up("p", 2, 0.0)  # the other one is still missing
        await fail("a")
        assert await names.look_up("p", 1, 0.0) == ["127.0.0.1:2"]
    assert await names.look_up("p", 1, 0.0) == [], (
        "the reader that found its writer has had its turn"
    )


async def test_a_reader_that_waits_for_its_producers_hears_it(place: str) -> None:
    names = names_in(place)
    waiting = asyncio.ensure_future(names.find("p", 3, NetworkConfig()))
    async with names.published("p", "a", "127.0.0.1:1"):
        async with names.published("p", "b", "127.0.0.1:2", lambda: FailedProducer(BOOM, None)):
            pass
        with FAILED:
            await waiting


async def test_a_reader_that_has_found_its_producer_and_cannot_reach_it_any_more_hears_it(
    place: str,
) -> None:
    """The environment closed while the reader connected.

    The reader must not get `cannot connect` a minute later instead.
    """
    names = names_in(place)
    gone = f"127.0.0.1:{free_port()}"
    async with NetworkEnvironment(directory=place) as environment:
        async with names.published("p", "a", gone, lambda: FailedProducer(BOOM, [0])):
            opened = environment.open_reader("p")
            reader = await opened.__aenter__()
        with FAILED:
            await reader.next_batch()
        await opened.__aexit__(None, None, None)


async def test_a_reader_whose_request_meets_a_producer_that_closes_hears_it(place: str) -> None:
    """The connection was established, but the closing producer could no longer answer."""
    names = names_in(place)
    async with Host() as host, NetworkEnvironment(directory=place) as environment:
        async with names.published("p", "a", host.address, lambda: FailedProducer(BOOM, [0])):
            reading = asyncio.ensure_future(read(environment, "p"))
            stranger = await host.accept()
            host.answer(stranger)
            await stranger.read_messages(1)
        stranger.send(encode(MessageType.CLOSE_REQUEST))
        await stranger.close()
        with FAILED:
            await reading


async def test_a_reader_that_is_cancelled_as_it_leaves_leaves_nothing_open(place: str) -> None:
    """It is then waiting for the task that looks for failures of a producer that it has not
    reached."""
    names = names_in(place)
    gone = f"127.0.0.1:{free_port()}"
    async with NetworkEnvironment(directory=place) as environment:
        async with names.published("p", "a", gone):
            opened = environment.open_reader("p")
            await opened.__aenter__()
            leaving = asyncio.ensure_future(opened.__aexit__(None, None, None))
            await asyncio.sleep(0)
            assert not leaving.done()
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
        assert environment.statistics().gates == ()


async def test_a_producer_that_is_cancelled_as_it_withdraws_hears_that(place: str) -> None:
    """Wherever it waits then, its own cancellation must not be taken for the end of a task that it
    waits for."""
    names = names_in(place)
    steps = 0
    while True:
        published = names.published("p", "a", "127.0.0.1:1")
        await published.__aenter__()
        leaving = asyncio.ensure_future(published.__aexit__(None, None, None))
        for _ in range(steps):
            await asyncio.sleep(0)
        if leaving.done():
            break
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        steps += 1
    await leaving
    assert place.startswith("http") or steps == 1


def failure_in(place: Path) -> Path:
    """Return the only file with an error."""
    [left] = place.glob("*/*/failed-*")
    return left


async def test_an_error_that_another_reader_takes_away_meanwhile_is_not_raised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreadable error is not raised either; it is removed when its time is over."""
    names = PartitionDirectory(tmp_path, "embedded")
    async with names.published("p", "a", "127.0.0.1:1", lambda: FailedProducer(BOOM, [0])):
        pass
    left = failure_in(tmp_path)

    def lock(descriptor: int, operation: int) -> None:
        left.unlink()
        flock(descriptor, operation)

    flock = fcntl.flock
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", lock)
        assert await names.look_up("p", 1, 0.0) == []
    left.write_bytes(b'{"code"')
    assert await names.look_up("p", 1, 0.0) == []
    assert left.exists()
    os.utime(left, (0, 0))
    assert await names.look_up("p", 1, 0.0) == []
    assert not left.exists()


def test_an_old_failure_is_ignored(tmp_path: Path) -> None:
    """An error from the future means nothing either, as the clock was set back.

    The number of kept errors is bounded as well.
    """
    config = NetworkConfig(ended_partitions_remembered_max=2, ended_partitions_remembered_ms=60_000)
    names = PartitionDirectory(tmp_path, "embedded", config)

    def left() -> list[Path]:
        return sorted(tmp_path.glob("*/*/failed-*"))

    async def leave(worker_id: str, *, age_s: float) -> None:
        failed = FailedProducer(KeptError(ProducerFailedError, worker_id), None)
        async with names.published("p", worker_id, "127.0.0.1:1", lambda: failed):
            pass
        [file] = [file for file in left() if file.name.endswith(worker_id)]
        moment = file.stat().st_mtime - age_s
        os.utime(file, (moment, moment))

    async def look_up() -> str:
        try:
            await names.look_up("p", 1, 0.0)
        except FlinknetError as error:
            return str(error)
        return ""

    async def run() -> None:
        await leave("old", age_s=61)
        await leave("future", age_s=-61)
        assert await look_up() == ""
        assert left() == [], "they are removed"
        await leave("c", age_s=30)
        await leave("b", age_s=20)
        await leave("a", age_s=0)
        assert [file.name[-1] for file in left()] == ["a", "b"]
        assert await look_up() in ("a (0 s ago)", "a (1 s ago)")

    asyncio.run(run())

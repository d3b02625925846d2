"""A forked process: objects opened by its parent raise in it, and still work in the parent."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import flinknet.sync
from flinknet.net.network_environment import NetworkEnvironment


def in_child(*calls: Callable[[], object]) -> list[str]:
    """Make the calls in a forked child, and return the result or error of each."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for call in calls:
            try:
                said.append(f"returned {call()!r}")
            except BaseException as error:
                said.append(f"{type(error).__name__}: {error}")
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found: list[str] = json.loads(pipe.read())
    os.waitpid(child, 0)
    return found


def assert_left_behind(said: list[str], *whats: str) -> None:
    for text, what in zip(said, whats, strict=True):
        assert text.startswith(f"LocalProtocolError: {what} was opened before this process"), text
        assert "open it again in this process" in text


async def test_an_environment_writer_and_reader_of_the_parent_raise_in_the_child() -> None:
    """The child has no loop, so only calls that do not wait are tested there.

    The parent's stream stays intact.
    """
    async with NetworkEnvironment() as here, NetworkEnvironment() as there:

        def step(call: Callable[[], object]) -> Callable[[], object]:
            return lambda: call().send(None)  # type: ignore[attr-defined]

        async with (
            here.open_reader(there.address, "numbers") as reader,
            there.open_writer("numbers", buffer_timeout_ms=0) as writer,
        ):
            await writer.emit(1)
            assert await anext(reader) == 1
            said = in_child(
                step(lambda: writer.emit(2)),
                step(lambda: writer.emit_many([2, 3])),
                step(lambda: writer.broadcast_emit(2)),
                step(writer.finish),
                step(reader.next_batch),
                lambda: here.address,
                lambda: there.create_result_partition("more", subpartitions=1),
            )
            writers, readers = ["the writer of numbers"] * 4, ["the reader numbers"]
            assert_left_behind(said, *writers, *readers, *["the network environment"] * 2)
            await writer.emit(4)
            reading = asyncio.ensure_future(reader.next_batch())
            finishing = asyncio.ensure_future(writer.finish())
            assert list(await reading or ()) == [4]
            assert await reader.next_batch() is None
            await finishing


@pytest.mark.parametrize("held", ["free", "in use by another thread"])
def test_objects_of_flinknet_sync_raise_in_the_child(tmp_path: Path, held: str) -> None:
    """It raises at once instead of waiting for a thread that the child does not have.

    A lock that another thread of the parent held at the fork is never released in the child.
    """
    got: list[int] = []

    def read() -> None:
        with flinknet.sync.open_reader("numbers", directory=tmp_path) as reader:
            got.extend(reader)

    thread = threading.Thread(target=read)
    thread.start()
    with (
        flinknet.sync.NetworkEnvironment(directory=tmp_path) as environment,
        environment.open_topic("topic") as topic,
        environment.open_writer("numbers") as writer,
        environment.open_reader(environment.address, "topic") as subscriber,
    ):
        writer.emit(1)
        used = (writer, topic, subscriber) if held != "free" else ()
        for one in used:
            one._turn.acquire()
        said = in_child(
            lambda: writer.emit(2),
            lambda: writer.emit_many([2]),
            writer.flush,
            lambda: topic.emit(2),
            topic.statistics,
            lambda: next(subscriber),
            lambda: next(subscriber.batches()),
            lambda: environment.address,
            environment.statistics,
            lambda: environment.open_writer("more").__enter__(),
        )
        for one in used:
            one._turn.release()
        names = ["the writer"] * 3 + ["the topic"] * 2 + ["the reader"] * 2
        assert_left_behind(said, *names, *["the network environment"] * 3)
        assert in_child(lambda: writer.__exit__(None, None, None)) == ["returned None"]
        writer.emit(3)
    thread.join()
    assert got == [1, 3]


def test_a_child_opens_the_exchange_anew(tmp_path: Path) -> None:
    def exchange() -> list[int]:
        got: list[int] = []
        with flinknet.sync.NetworkEnvironment() as environment:

            def read() -> None:
                with environment.open_reader(environment.address, "numbers") as reader:
                    got.extend(reader)

            thread = threading.Thread(target=read)
            thread.start()
            with environment.open_writer("numbers") as writer:
                writer.emit_many(range(3))
            thread.join()
        return got

    with flinknet.sync.NetworkEnvironment(directory=tmp_path) as environment:
        assert environment.address
        assert in_child(exchange) == ["returned [0, 1, 2]"]

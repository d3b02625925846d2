"""Lines from a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flinknet.datastream import CollectSink, SocketSource, StreamExecutionEnvironment
from flinknet.datastream.connectors.socket_source import SOCKET_RECORD_BYTES_MAX
from flinknet.errors import ConfigurationError, JobFailedError
from tests.unit.runtime.running import run_job


@asynccontextmanager
async def sending(content: bytes) -> AsyncIterator[int]:
    """Serve this content to each client and close; yield the port."""

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        writer.write_eof()
        await reader.read()  # Until the other side has closed.
        writer.close()

    server = await asyncio.start_server(send, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def received(source: SocketSource, parallelism: int = 1) -> list[Any]:
    environment = StreamExecutionEnvironment()
    stream = environment.from_source(source).set_parallelism(parallelism)
    stream.sink_to(CollectSink())
    return (await run_job(environment)).collected["Collect"]


async def test_each_line_is_a_record_and_so_is_what_stands_behind_the_last() -> None:
    async with sending("one\n\nthrée\nrest".encode()) as port:
        assert await received(SocketSource("127.0.0.1", port)) == ["one", "", "thrée", "rest"]
    async with sending(b"one; two; ") as port:
        assert await received(SocketSource("127.0.0.1", port, delimiter="; ")) == ["one", "two"]


async def test_more_than_is_read_at_once_comes_whole() -> None:
    long = "x" * 200_000
    async with sending(f"{long}\n{long}\n".encode()) as port:
        assert await received(SocketSource("127.0.0.1", port)) == [long, long]


async def test_input_without_a_delimiter_is_refused() -> None:
    async with sending(b"x" * (SOCKET_RECORD_BYTES_MAX + 1)) as port:
        with pytest.raises(JobFailedError, match=r"bytes without the delimiter b'\\n': choose"):
            await received(SocketSource("127.0.0.1", port))


async def test_an_unreachable_server_is_named() -> None:
    async with sending(b"") as port:
        pass
    with pytest.raises(JobFailedError, match=f"cannot connect to 127.0.0.1:{port} .*nc -lk"):
        await received(SocketSource("127.0.0.1", port))


async def test_a_socket_is_read_once() -> None:
    with pytest.raises(ConfigurationError, match="would be read by 2 subtasks: leave"):
        await received(SocketSource("127.0.0.1", 1), parallelism=2)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the port is 0: choose a number from 1"):
        SocketSource("127.0.0.1", 0)
    with pytest.raises(ConfigurationError, match="the delimiter is empty"):
        SocketSource("127.0.0.1", 1, delimiter="")

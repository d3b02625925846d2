"""The foreign peers as processes, with arguments and JSON lines on standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from flinknet import NetworkConfig

ROOT = Path(__file__).parents[2]
NODE = Path(__file__).parent / "node"
LEAST_NODE = 18

Language = Literal["python", "node"]
LANGUAGES: tuple[Language, ...] = ("python", "node")

SEGMENT_BYTES = 512
CONFIG = NetworkConfig(segment_bytes=SEGMENT_BYTES, network_memory_bytes=1 << 20)


def node_is_missing() -> str | None:
    """Return why the peer on Node cannot run, or None."""
    if not (NODE / "node_modules" / "@msgpack" / "msgpack").exists():
        return "its library is not installed: run `make node`"
    node = shutil.which("node")
    if node is None:
        return "there is no Node: run `make node`"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < LEAST_NODE:
        return f"Node {version.strip()} is too old: install {LEAST_NODE} or newer"
    return None


def require(language: Language) -> None:
    """Skip a test without Node; in continuous integration, fail it."""
    reason = node_is_missing() if language == "node" else None
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"the peer on Node cannot run: {reason}")
    pytest.skip(f"the peer on Node cannot run: {reason}")


class Foreigner:
    """A running foreign peer."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def line(self) -> dict[str, Any]:
        """Return the next line of its output."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "it ended without saying how: its standard error has more"
        said: dict[str, Any] = json.loads(line)
        return said

    async def say(self, text: str, *, last: bool = False) -> None:
        """Write a line to its standard input, and close that after the last line."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() + b"\n")
        await self._process.stdin.drain()
        if last:
            self._process.stdin.close()

    async def records(self) -> tuple[dict[int, list[Any]], Any]:
        """Return the records that it reads until its end, by subpartition, and the result."""
        found: dict[int, list[Any]] = {}
        while True:
            said = await self.line()
            if "end" in said:
                assert await self._process.wait() == (said["end"] != "complete")
                return found, said["end"]
            found.setdefault(said["channel"], []).append(said["record"])

    async def end(self) -> Any:
        """Return its result; it must have read no records."""
        records, end = await self.records()
        assert not records
        return end


@asynccontextmanager
async def running(
    language: Language, program: str, arguments: Iterable[object], options: dict[str, Any]
) -> AsyncIterator[Foreigner]:
    """Run a peer; an option ``worker_id="me"`` becomes ``--worker-id me``."""
    require(language)
    begin = [sys.executable, "-m", f"tests.peers.python.{program}"]
    if language == "node":
        begin = ["node", str(NODE / f"{program}.js")]
    options = {"segment_bytes": SEGMENT_BYTES, **options}
    named = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    process = await asyncio.create_subprocess_exec(
        *begin, *map(str, arguments), *named, cwd=ROOT, stdin=PIPE, stdout=PIPE, limit=1 << 24
    )
    try:
        yield Foreigner(process)
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        await process.communicate()


@asynccontextmanager
async def consumer(
    language: Language, address: str, partition: str, *subpartitions: int, **options: Any
) -> AsyncIterator[Foreigner]:
    """Run a consumer of subpartitions."""
    arguments = [address, partition, *subpartitions]
    async with running(language, "consumer", arguments, options) as foreigner:
        yield foreigner


@asynccontextmanager
async def producer(
    language: Language,
    partitions: dict[str, list[list[Any]]],
    *,
    errors: dict[str, tuple[int, str]] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Foreigner, str]]:
    """Run a producer of named partitions, and yield it with its address."""
    async with running(language, "producer", [], options) as foreigner:
        work = {"partitions": partitions, "errors": errors or {}}
        await foreigner.say(json.dumps(work), last=True)
        yield foreigner, (await foreigner.line())["address"]

"""Sinks: what they keep, print and refuse, and when they commit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flinknet.datastream import RuntimeContext, Sink
from flinknet.errors import JobFailedError
from flinknet.task.sink import SinkOperator
from tests.unit.task.harness import Harness


class Diary(Sink):
    """Writes down what happens to it, in coroutines."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    async def open(self, runtime_context: RuntimeContext) -> None:
        await asyncio.sleep(0)
        self.entries.append("open")

    async def write(self, records: list[Any]) -> None:
        await asyncio.sleep(0)
        self.entries.append(records)

    async def finish(self) -> None:
        await asyncio.sleep(0)
        self.entries.append("finish")

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.entries.append("close")


async def test_life_of_a_sink() -> None:
    diary = Diary()
    async with Harness(SinkOperator(diary)) as harness:
        await harness.process(1, 2)
        await harness.process(3)
        await harness.end_of_input()

    assert diary.entries == ["open", [1, 2], [3], "finish", "close"]


@pytest.mark.parametrize("method", ["open", "write", "finish", "close"])
async def test_failing_sink(method: str) -> None:
    class Broken(Diary):
        pass

    async def fail(self: Sink, *arguments: Any) -> None:
        raise OSError("disk full")

    setattr(Broken, method, fail)
    where = r"on 2 records of type int, str" if method == "write" else rf"in {method}\(\)"

    async def whole_life() -> None:
        async with Harness(SinkOperator(Broken())) as harness:
            await harness.process(1, "a")
            await harness.end_of_input()

    with pytest.raises(
        JobFailedError, match=rf'"tested" \(1/1\) failed {where}: OSError: disk full'
    ):
        await whole_life()

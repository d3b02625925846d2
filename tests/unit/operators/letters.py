"""Sources of letters, and a function that reads all records of a source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from flinknet.datastream import (
    RuntimeContext,
    Source,
)
from flinknet.environment.task_thread import OnLoop
from flinknet.metrics.task_times import TaskTimes
from flinknet.net.task_clock import task_time
from flinknet.operators.mailbox import Mailbox
from flinknet.operators.record_slices import RecordSlices
from flinknet.operators.source import SourceOperator
from flinknet.records.serialization.packer import RecordPacker
from flinknet.runtime.subtask import TURN_S
from tests.unit.operators.harness import Harness, context


class Letters(Source):
    """A source of batches of letters that records when it is closed."""

    closed = False

    def batches(self, context: RuntimeContext) -> Iterator[list[str]]:
        try:
            yield ["a", "b"]
            yield []
            yield ["c"]
        finally:
            Letters.closed = True


class LettersLater(Letters):
    """The same source, with an asynchronous iterator."""

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[str]]:  # type: ignore[override]
        for batch in super().batches(context):
            await asyncio.sleep(0)
            yield batch


def mails_and_slices(mailbox: Mailbox | None = None) -> tuple[Mailbox, RecordSlices]:
    """Return the arguments with which a source is run on the event loop."""
    mailbox = mailbox or Mailbox("tested", 1)
    times = TaskTimes("tested", task_time())
    return mailbox, RecordSlices(mailbox, (), times, None, RecordPacker(), OnLoop(), TURN_S)


async def records_of(source: Source, index: int = 0, parallelism: int = 1) -> list[Any]:
    async with Harness(
        SourceOperator(source), context(index=index, parallelism=parallelism)
    ) as harness:
        operator = harness.operator
        assert isinstance(operator, SourceOperator)
        await operator.run(*mails_and_slices())
        assert operator.records_read == len(harness.records)
        return harness.records

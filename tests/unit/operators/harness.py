"""Run one operator without a job around it."""

from __future__ import annotations

from typing import Any, Self

import pytest

from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.functions.context import RuntimeContext
from flinknet.operators.operators import Operator, StreamElement
from flinknet.operators.timestamped_batch import (
    Batch,
    TimestampedArrivals,
    TimestampedBatch,
    on_wire,
)
from flinknet.records.record_iterator import ArrivedRecords, RecordIterator


def context(**fields: Any) -> RuntimeContext:
    """Return a runtime context of the only subtask of an operator called "tested"."""
    defaults: dict[str, Any] = {
        "operator_name": "tested",
        "task_name": "Source: test -> tested",
        "index": 0,
        "parallelism": 1,
        "max_parallelism": 128,
        "processing_time": ProcessingTimeService(lambda action: None),
    }
    return RuntimeContext(**(defaults | fields))


class Harness:
    """An open operator, with its emitted batches: ``async with Harness(operator) as harness``."""

    takes_stamped: bool
    """Whether its records and results are tuples ``(timestamp, value)``."""
    have_arrived = False
    """Whether its input comes as from the network, where the operator accepts that."""

    def __init__(
        self,
        operator: Operator,
        runtime_context: RuntimeContext | None = None,
        *,
        stamped: bool = False,
    ) -> None:
        operator.is_timestamped = self.takes_stamped = stamped
        self.operator = operator
        self.context = runtime_context if runtime_context is not None else context()
        self.batches: list[list[Any]] = []
        self.event_time: list[StreamElement] = []
        """The emitted watermarks, statuses and latency markers."""
        operator.connect(self._keep, self._keep_event_time)

    async def __aenter__(self) -> Self:
        await self.operator.open(self.context)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.operator.close()

    @property
    def records(self) -> list[Any]:
        """The records of all batches."""
        return [record for batch in self.batches for record in batch]

    async def process(self, *records: Any) -> list[Any]:
        """Process one batch and return the records emitted for it."""
        before = len(self.records)
        batch: Any = TimestampedBatch.of(records) if self.takes_stamped else list(records)
        if self.have_arrived and self.operator.iterates_once:
            batch = arrived(records)
            if self.takes_stamped:
                batch = TimestampedArrivals(batch)
        await self.operator.process(batch)
        return self.records[before:]

    async def end_of_input(self) -> list[Any]:
        """End the input and return the records emitted then."""
        before = len(self.records)
        await self.operator.end_of_input()
        return self.records[before:]

    async def _keep(self, records: Batch) -> None:
        assert len(records), "an emitted batch is never empty"
        assert isinstance(records, TimestampedBatch) is self.operator.is_timestamped
        self.batches.append(on_wire(records))

    async def _keep_event_time(self, element: StreamElement) -> None:
        self.event_time.append(element)


def arrived(records: tuple[Any, ...]) -> ArrivedRecords:
    """Return records in the form in which a reader hands them out."""
    iterator = RecordIterator(_wait_for_none)
    content = memoryview(b"")
    iterator.have(content, 0, 0, 0, unpacked=records, length_max=0, unpack=_unpack_none)
    return ArrivedRecords(iterator)


async def _wait_for_none() -> None:
    raise StopAsyncIteration


def _unpack_none(*_: Any) -> tuple[Any, ...]:
    raise AssertionError("there is nothing to unpack")


class _EnoughError(Exception):
    """The successor of an operator has had enough batches."""


async def first_batches(operator: Operator, records: list[Any], number: int) -> list[list[Any]]:
    """Return the first batches that an operator makes of records; then stop the operator."""
    batches: list[list[Any]] = []

    async def take(batch: list[Any]) -> None:
        batches.append(batch)
        if len(batches) == number:
            raise _EnoughError

    async with Harness(operator):
        operator.connect(take)
        with pytest.raises(_EnoughError):
            await operator.process(records)
    return batches

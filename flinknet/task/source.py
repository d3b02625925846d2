"""A source, and the operator that reads it: where a job's records come from, a batch at a time.

Theory of operation. One source object describes the whole stream; every subtask has its copy and
reads its share. A batch is a list of records, or anything else with a length that is iterated once;
it is iterated as late as possible, so it may make its records then.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing
from typing import Any, Protocol

from flinknet.errors import ConfigurationError
from flinknet.task.context import RuntimeContext
from flinknet.task.operators import Operator, in_pieces

__all__ = ["Batch", "Batches", "Source", "SourceOperator", "read"]


class Batch(Protocol):
    """Some records, iterated once."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


Batches = Iterator[Batch] | AsyncIterator[Batch]


class Source(ABC):
    """Where records come from."""

    parallelism: int | None = None
    """How many subtasks read it if the job does not say; None takes the job's parallelism."""

    @abstractmethod
    def batches(self, context: RuntimeContext) -> Batches:
        """Return an iterator, or an async iterator, of the batches of subtask ``context.index``.

        A generator is closed when the subtask ends, whichever way, so it can release in a
        ``finally``. A plain iterator runs on the worker's event loop and must not block it for
        long. What an async one waits for inside ``context.idle()`` counts as idle, else as busy.
        """


async def read(source: Source, context: RuntimeContext) -> AsyncGenerator[Batch, None]:
    """Read the batches of any source, and close its generator at the end."""
    batches = source.batches(context)
    try:
        if isinstance(batches, AsyncIterator):
            async for batch in batches:
                yield batch
        else:
            for batch in batches:
                yield batch
    finally:
        if isinstance(batches, AsyncGenerator):
            await batches.aclose()
        elif isinstance(batches, Generator):
            batches.close()


class SourceOperator(Operator):
    """The head of a chain that reads a source instead of the network."""

    def __init__(self, source: Source) -> None:
        if not isinstance(source, Source):
            raise ConfigurationError(
                f"from_source needs a Source, not {type(source).__name__}: for a collection there "
                "is from_collection"
            )
        self._source = source
        self.records_read = 0

    async def run(self) -> None:
        """Emit every record of the source; other subtasks get a turn after every batch."""
        async with aclosing(self._pieces()) as pieces:
            while True:
                try:
                    records = await anext(pieces, None)
                except Exception as error:
                    self._fail(error, f"after {self.records_read} records")
                if records is None:
                    return
                if records:
                    self.records_read += len(records)
                    await self._emit(records)
                await asyncio.sleep(0)

    async def _pieces(self) -> AsyncGenerator[list[Any], None]:
        """Read batches, empty ones too; Arrow record batches one by one, as they are made."""
        async with aclosing(read(self._source, self._context)) as batches:
            async for batch in batches:
                if not len(batch):
                    yield []
                for piece in in_pieces(iter(batch), len(batch)):
                    yield piece

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

from flinknet.buffer.availability import Availability
from flinknet.errors import ConfigurationError, StateError
from flinknet.task.context import RuntimeContext
from flinknet.task.mailbox import Mailbox
from flinknet.task.operators import Operator, in_pieces
from flinknet.task.record_slices import RecordSlices
from flinknet.task.state.descriptors import ListStateDescriptor
from flinknet.task.state.operator_state import OperatorListState

__all__ = ["Batch", "Batches", "Source", "SourceOperator", "read"]


_POSITION = ListStateDescriptor("position")
"""(index, parallelism, records read) of each subtask."""


class Batch(Protocol):
    """Some records, iterated once."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


Batches = Iterator[Batch] | AsyncIterator[Batch]


class Source(ABC):
    """Where records come from."""

    parallelism: int | None = None
    """How many subtasks read it if the job does not say; None takes the job's parallelism."""

    replayable = False
    """Whether a subtask gets the same records in the same order each time: only then can a job with
    checkpoints read it."""

    @abstractmethod
    def batches(self, context: RuntimeContext) -> Batches:
        """Return an iterator, or an async iterator, of the batches of subtask ``context.index``.

        A generator is closed when the subtask ends, whichever way, so it can release in a
        ``finally``. A plain iterator runs on the worker's event loop and must not block it for
        long. What an async one waits for inside ``context.idle()`` counts as idle, else as busy.
        """

    def batches_after(self, context: RuntimeContext, position: int) -> Batches:
        """Return the batches behind the first ``position`` records of a replayable source.

        Here they are read and dropped; a source that can find its place does better.
        """
        return _behind(self.batches(context), position)


def read(source: Source, context: RuntimeContext, position: int = 0) -> AsyncGenerator[Batch, None]:
    """Read the batches of any source, behind the first ``position`` records, and close its
    generator at the end."""
    batches = source.batches_after(context, position) if position else source.batches(context)
    return _each(batches)


async def _behind(batches: Batches, position: int) -> AsyncGenerator[Batch, None]:
    async with aclosing(_each(batches)) as each:
        async for batch in each:
            if position >= len(batch):
                position -= len(batch)
            elif position:
                yield list(batch)[position:]
                position = 0
            else:
                yield batch


async def _each(batches: Batches) -> AsyncGenerator[Batch, None]:
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


async def _pieces(batches: Batches) -> AsyncGenerator[list[Any], None]:
    """Read batches, empty ones too; Arrow record batches one by one, as they are made."""
    async with aclosing(_each(batches)) as each:
        async for batch in each:
            if not len(batch):
                yield []
            for piece in in_pieces(iter(batch), len(batch)):
                yield piece


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
        self._position = 0
        """Records of this subtask's share that are in front of what comes next."""
        self._saved: OperatorListState | None = None

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        if context.checkpointed and not self._source.replayable:
            raise ConfigurationError(
                f'source "{context.operator_name}" cannot be read again from where a checkpoint '
                "found it: read a replayable one, or run the job without checkpoints"
            )
        self._saved = context.state.operator.get_union_list_state(_POSITION)
        positions = {index: (parallelism, at) for index, parallelism, at in self._saved.get()}
        if positions:
            parallelism, self._position = positions.get(context.index, (0, 0))
            if parallelism != context.parallelism:
                raise ConfigurationError(
                    f'source "{context.operator_name}" was read by {len(positions)} subtasks in '
                    f"the checkpoint, and cannot be by {context.parallelism}: its records were "
                    "dealt out to those"
                )

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        context = self._context
        if not self._source.replayable:
            raise StateError(
                f'source "{context.operator_name}" cannot be read again from where a savepoint '
                "found it: only a job whose sources are replayable can have one"
            )
        if self._saved is not None:
            self._saved.update([(context.index, context.parallelism, self._position)])

    async def run(self, mailbox: Mailbox, slices: RecordSlices | None = None) -> None:
        """Emit every record of the source; other subtasks get a turn after every batch, and mails
        are run before one, also while an asynchronous source makes it; with ``slices``, also in
        between."""
        async with aclosing(self._open(mailbox)) as pieces:
            while True:
                if mailbox.mails:
                    await mailbox.run_mails()
                try:
                    records = await anext(pieces, None)
                except Exception as error:
                    self._fail(error, f"after {self.records_read} records")
                if records is None:
                    return
                if records:
                    self.records_read += len(records)
                    if slices is None:
                        await self._emit_counted(records)
                    else:
                        await slices.work_off(records, self._emit_counted)
                await asyncio.sleep(0)

    async def _emit_counted(self, records: list[Any]) -> None:
        await self._emit(records)
        self._position += len(records)

    def _open(self, mailbox: Mailbox) -> AsyncGenerator[list[Any], None]:
        try:
            if self._position:
                batches = self._source.batches_after(self._context, self._position)
            else:
                batches = self._source.batches(self._context)
        except Exception as error:
            self._fail(error, "after 0 records")
        pieces = _pieces(batches)
        if not isinstance(batches, AsyncIterator):
            return pieces
        return _read_apart(pieces, mailbox)


async def _read_apart(
    pieces: AsyncGenerator[list[Any], None], mailbox: Mailbox
) -> AsyncGenerator[list[Any], None]:
    """Read one piece at a time, when it is asked for, in one task for all of them; until it is
    there, whoever asks runs mails. The time counts as busy: a source says itself when it is idle.
    """
    read, asked = Availability(), asyncio.Event()
    piece: list[Any] | None = None

    async def read_all() -> None:
        nonlocal piece
        async with aclosing(pieces):
            while await asked.wait():
                asked.clear()
                piece = await anext(pieces, None)
                read.set(True)

    reading = asyncio.create_task(read_all())
    reading.add_done_callback(lambda _: read.set(True))
    try:
        while True:
            read.set(False)
            asked.set()
            await mailbox.until(read)
            if reading.done():
                reading.result()
            if piece is None:
                return
            yield piece
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        if not reading.cancelled():
            reading.result()

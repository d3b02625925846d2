"""A source, and the operator that reads it: where a job's records come from, a batch at a time.

Theory of operation. One source object describes the whole stream; every subtask has its copy and
reads its share. A batch is a list of records, or anything else with a length that is iterated once;
it is iterated as late as possible, so it may make its records then.

Checkpoints have the shares of all subtasks with how far each was read. A subtask that goes on with
several of them (``Share``) reads them in turn, a batch of each.

Every ``latency_interval_ms`` it emits a latency marker, between two batches: the time for which it
was backpressured before is not in it, as in Flink.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from flinknet.buffer.availability import Availability
from flinknet.environment.cluster_clock import CLUSTER_CLOCK
from flinknet.environment.processing_time import ScheduledTimer
from flinknet.environment.task_thread import STEP_S, ChainThread, is_in_task_thread
from flinknet.errors import ConfigurationError, StateError
from flinknet.functions.calls import are_serialised_next, in_pieces
from flinknet.functions.context import RuntimeContext
from flinknet.net.task_clock import task_time
from flinknet.operators.mailbox import Mailbox
from flinknet.operators.operators import Operator
from flinknet.operators.record_slices import RecordSlices, SliceSize
from flinknet.records.detached import Detachment, all_detached, each_detached
from flinknet.state.descriptors import ListStateDescriptor
from flinknet.state.operator_state import OperatorListState
from flinknet.wire.events import LatencyMarker

__all__ = ["Batch", "Batches", "Share", "Source", "SourceOperator", "read", "shares_of"]


_SHARES = ListStateDescriptor("shares")
"""(subtask, subtasks, its shares) of each subtask, as all have it."""


class Share(NamedTuple):
    """The records that ``subtask`` of ``subtasks`` has left to read behind ``position`` of them.

    A share stays the same when the job goes on with another number of subtasks. A subtask may then
    read several shares, or a part of one. A share can be cut only if records are dealt out one by
    one: then every m-th record of its rest is a share of more subtasks. Otherwise some subtasks
    have nothing to read. Invariant: the shares of all subtasks together are the records that were
    left, each once.
    """

    subtask: int
    subtasks: int
    position: int = 0

    def part(self, number: int, parts: int) -> Share:
        """Return one of so many parts, of records that are dealt out one by one."""
        first = self.subtask + (self.position + number) * self.subtasks
        subtasks = self.subtasks * parts
        return Share(first % subtasks, subtasks, first // subtasks)


def shares_of(
    shares: Iterable[Share], index: int, parallelism: int, *, can_be_cut: bool
) -> list[Share]:
    """Return what subtask ``index`` of ``parallelism`` reads of all shares."""
    row: Sequence[Share] = sorted(shares)
    if not row:
        return []
    if len(row) >= parallelism:
        return list(row[index::parallelism])
    if not can_be_cut:
        return list(row[index : index + 1])
    readers = range(index % len(row), parallelism, len(row))
    return [row[index % len(row)].part(index // len(row), len(readers))]


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

    deals_out_records = False
    """Whether subtask k of p gets the records k, k + p, k + 2p, ... of one sequence: only then can
    what a subtask has left be read by several, at another parallelism."""

    is_bounded = True
    """Whether it ends by itself."""

    keeps_no_records = False
    """Whether neither the source nor code that it calls refers to a record, or to anything in it
    that can be changed, once its batch was given away: then none is copied."""

    @abstractmethod
    def batches(self, context: RuntimeContext) -> Batches:
        """Return an iterator, or an async iterator, of the batches of subtask ``context.index``.

        After a change of the parallelism it may be called several times, for what other subtasks
        had before: ``context.index`` and ``context.parallelism`` are theirs then.

        A generator is closed when the subtask ends, whichever way, so it can release in a
        ``finally``. A plain iterator runs in the subtask's thread, and may block: but records and
        checkpoints wait meanwhile. An async one runs on the worker's event loop. What it waits for
        inside ``context.idle()`` counts as idle, else as busy.
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
                yield list(each_detached(batch))[position:]
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


async def _pieces(batches: Batches, detachment: Detachment) -> AsyncGenerator[list[Any], None]:
    """Read batches, empty ones too, and large ones in pieces, so that a barrier does not wait for
    long; Arrow record batches one by one, as they are made."""
    runs_beside = isinstance(batches, AsyncIterator)
    async with aclosing(_each(batches)) as each:
        async for batch in each:
            if not len(batch):
                yield []
            if runs_beside or not isinstance(batch, list):
                for piece in in_pieces(all_detached(batch, detachment)):
                    yield piece
                continue
            # No code of the source runs before the next batch. So each piece is detached when it is
            # taken, and a long list is not brought into the processor's cache twice.
            is_written = are_serialised_next(batch, detachment)
            for piece in in_pieces(batch):
                given = piece if is_written else all_detached(piece, detachment)
                yield piece if given is piece else list(given)


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
        self._shares: list[Share] = []
        self._read = 0
        """Which of them the records in progress are of."""
        self._saved: OperatorListState | None = None
        self._marker_timer: ScheduledTimer | None = None

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        self._shares = [Share(context.index, context.parallelism)]
        if context.checkpointed and not self._source.replayable:
            raise ConfigurationError(
                f'source "{context.operator_name}" cannot be read again from where a checkpoint '
                "found it: read a replayable one, or run the job without checkpoints"
            )
        self._saved = context.state.operator.get_union_list_state(_SHARES)
        if context.state.is_restored:
            self._shares = self._restored_shares(self._saved.get())
        if context.latency_interval_ms:
            self._set_marker_timer(0)

    async def close(self) -> None:
        if self._marker_timer is not None:
            self._context.processing_time.cancel(self._marker_timer)

    def _set_marker_timer(self, delay_ms: int) -> None:
        clock = self._context.processing_time
        self._marker_timer = clock.register_delay(delay_ms, self._emit_marker)

    async def _emit_marker(self, timestamp_ms: int) -> None:
        context = self._context
        self._set_marker_timer(context.latency_interval_ms)
        now_ms = context.processing_time.get_current_processing_time()
        marked_ms = CLUSTER_CLOCK.shows_at(now_ms)
        await self._pass_on(LatencyMarker(marked_ms, context.operator_uid, context.index))

    def _restored_shares(self, saved: list[Any]) -> list[Share]:
        """Return what this subtask goes on with; those that had finished have left nothing."""
        context = self._context
        had = {subtask: [Share(*one) for one in shares] for subtask, _, shares in saved}
        if {number for _, number, _ in saved} <= {context.parallelism}:
            return had.get(context.index, [])
        return shares_of(
            (share for shares in had.values() for share in shares),
            context.index,
            context.parallelism,
            can_be_cut=self._source.deals_out_records,
        )

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        context = self._context
        if not self._source.replayable:
            raise StateError(
                f'source "{context.operator_name}" cannot be read again from where a savepoint '
                "found it: only a job whose sources are replayable can have one"
            )
        if self._saved is not None:
            shares = [tuple(share) for share in self._shares]
            self._saved.update([(context.index, context.parallelism, shares)])

    async def run(
        self,
        mailbox: Mailbox,
        slices: RecordSlices,
        *,
        looks_up: bool = False,
        cuts: bool = True,
    ) -> None:
        """Emit every record of the source; other subtasks get a turn after every batch, and mails
        are run before one, also while an asynchronous source makes it. With ``looks_up`` batches
        are emitted in slices, between which the subtask does what they look up for; ``cuts`` says
        whether other batches may be cut."""
        thread = slices.thread
        async with AsyncExitStack() as opened:
            reading: deque[tuple[int, Pieces]] = deque()
            for number, share in enumerate(self._shares):
                pieces = await thread.run(self._open(share, mailbox))
                opened.push_async_callback(pieces.close, thread)
                reading.append((number, pieces))
            while reading:
                if mailbox.mails:
                    await mailbox.run_mails()
                self._read, pieces = reading[0]
                if looks_up or pieces.are_asynchronous:
                    has_read = await self._read_batch(pieces, slices, looks_up or cuts)
                else:
                    has_read = await thread.run(self._read_and_emit(pieces, slices.size, cuts))
                if not has_read:
                    reading.popleft()
                    continue
                reading.rotate(-1)
                await asyncio.sleep(0)

    async def _read_batch(self, pieces: Pieces, slices: RecordSlices, cuts: bool) -> bool:
        """Read a batch and emit it, in slices if it may be cut; return whether there was one."""
        next_piece = self._next(pieces.generated)
        records = await (next_piece if pieces.are_asynchronous else slices.thread.run(next_piece))
        if records and cuts:
            await slices.work_off(records, self._emit_counted)
        elif records:
            await slices.thread.run(self._emit_counted(records))
        return records is not None

    async def _read_and_emit(self, pieces: Pieces, size: SliceSize, cuts: bool) -> bool:
        """Read some records of a plain source and emit them; return whether there were some: in the
        chain's thread several batches, as many as make the step worth its cost, or a part of one
        that takes long."""
        ends_at = task_time() + (STEP_S if is_in_task_thread() else 0.0)
        while (records := pieces.rest or await self._next(pieces.generated)) is not None:
            began, number = task_time(), size.records if cuts else len(records)
            if len(records) > number:
                part, pieces.rest = records[:number], records[number:]
            else:
                part, pieces.rest = records, []
            if part:
                await self._emit_counted(part)
            ended = task_time()
            size.took(len(part), ended - began)
            if ended >= ends_at:
                return True
        return False

    async def _next(self, generated: AsyncGenerator[list[Any], None]) -> list[Any] | None:
        try:
            records = await anext(generated, None)
        except BaseException as error:
            self.fail(error, f"after {self.records_read} records")
        self.records_read += len(records or ())
        return records

    async def _emit_counted(self, records: list[Any]) -> None:
        await self._emit(records)
        share = self._shares[self._read]
        self._shares[self._read] = share._replace(position=share.position + len(records))

    async def _open(self, share: Share, mailbox: Mailbox) -> Pieces:
        context = replace(self._context, index=share.subtask, parallelism=share.subtasks)
        try:
            if share.position:
                batches = self._source.batches_after(context, share.position)
            else:
                batches = self._source.batches(context)
        except BaseException as error:
            self.fail(error, "after 0 records")
        keeps_none = self._source.keeps_no_records
        pieces = _pieces(batches, Detachment.NONE if keeps_none else self.detachment)
        if isinstance(batches, AsyncIterator):
            return Pieces(_read_apart(pieces, mailbox), are_asynchronous=True)
        return Pieces(pieces, are_asynchronous=False)


class Pieces:
    """The batches of one share of a source; ``are_asynchronous`` says that the event loop makes
    them."""

    def __init__(
        self, generated: AsyncGenerator[list[Any], None], *, are_asynchronous: bool
    ) -> None:
        self.generated = generated
        self.are_asynchronous = are_asynchronous
        self.rest: list[Any] = []
        """What was read and is not emitted. It is read again if the job goes on from a checkpoint
        of now."""

    async def close(self, thread: ChainThread) -> None:
        """Close the source's generator, where it was iterated."""
        closing = self.generated.aclose()
        await (closing if self.are_asynchronous else thread.run(closing))


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

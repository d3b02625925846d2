"""Sources, and the operator that reads them: records enter a job here, one batch at a time.

Theory of operation. One source object describes the whole stream; every subtask has a copy and
reads its share. A batch is a list of records, or any object with a length that can be iterated
once. It is iterated as late as possible, so it may create its records at that point.

A checkpoint contains the shares of all subtasks and the position reached in each. After a change of
the parallelism, a subtask may continue several shares (``Share``). It reads them in turn, one batch
of each.

Every ``latency_interval_ms`` the operator emits a latency marker, between two batches. As in Flink,
the marker does not include time that the source spent backpressured before.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeAlias

from flinknet.buffer.availability import Availability
from flinknet.compatibility.subscripted import Subscripted, T_co
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
"""Entries (subtask, subtasks, shares of the subtask), one per subtask; each subtask has all."""


class Share(NamedTuple):
    """The records that ``subtask`` of ``subtasks`` has still to read, after its first ``position``.

    A share keeps its meaning when the job continues with another number of subtasks. A subtask may
    then read several shares, or a part of one. A share can only be divided if records are dealt out
    one by one: every m-th record of the rest then forms a share among more subtasks. Otherwise some
    subtasks have nothing to read. Invariant: the shares of all subtasks together contain each
    remaining record exactly once.
    """

    subtask: int
    subtasks: int
    position: int = 0

    def part(self, number: int, parts: int) -> Share:
        """Return part ``number`` of ``parts``, for records that are dealt out one by one."""
        # Record i of the share is record ``subtask + i * subtasks`` of the whole sequence.
        first = self.subtask + (self.position + number) * self.subtasks
        subtasks = self.subtasks * parts
        return Share(first % subtasks, subtasks, first // subtasks)


def shares_of(
    shares: Iterable[Share], index: int, parallelism: int, *, can_be_cut: bool
) -> list[Share]:
    """Return the shares that subtask ``index`` of ``parallelism`` reads."""
    row: Sequence[Share] = sorted(shares)
    if not row:
        return []
    if len(row) >= parallelism:
        return list(row[index::parallelism])
    if not can_be_cut:
        return list(row[index : index + 1])
    # Share k of n is divided among the subtasks k, k + n, k + 2n, ...
    readers = range(index % len(row), parallelism, len(row))
    return [row[index % len(row)].part(index // len(row), len(readers))]


class Batch(Protocol[T_co]):
    """Records that can be iterated once."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T_co]: ...


Batches: TypeAlias = Iterator[Batch[T_co]] | AsyncIterator[Batch[T_co]]


class Source(Subscripted[T_co], ABC):
    """Base of sources: the origin of the records of a stream."""

    parallelism: int | None = None
    """Number of subtasks if the job does not set it; None stands for the job's parallelism."""

    replayable = False
    """Whether a subtask gets the same records in the same order each time. A job with checkpoints
    can only read a replayable source."""

    deals_out_records = False
    """Whether subtask k of p gets the records k, k + p, k + 2p, ... of one sequence. Only then can
    several subtasks share the rest of one subtask, at another parallelism."""

    is_bounded = True
    """Whether the source ends by itself."""

    keeps_no_records = False
    """Whether no record, and no mutable part of one, is referenced after its batch was emitted,
    neither by the source nor by code that it calls. Records are then not copied."""

    @abstractmethod
    def batches(self, context: RuntimeContext) -> Batches[T_co]:
        """Return an iterator, or an async iterator, of the batches of subtask ``context.index``.

        After a change of the parallelism it may be called several times, once for each share of a
        former subtask; ``context.index`` and ``context.parallelism`` then describe that subtask.

        A generator is closed when the subtask ends, in every case, so it can release resources in
        a ``finally``. A plain iterator runs in the subtask's thread and may block, but records and
        checkpoints wait meanwhile. An async iterator runs on the worker's event loop. Its waits
        inside ``context.idle()`` count as idle, all other waits as busy.
        """

    def batches_after(self, context: RuntimeContext, position: int) -> Batches[T_co]:
        """Return the batches after the first ``position`` records of a replayable source.

        The default reads and drops these records. A source that can seek should override it.
        """
        return _behind(self.batches(context), position)


def read(source: Source, context: RuntimeContext, position: int = 0) -> AsyncGenerator[Batch, None]:
    """Read the batches of any source after the first ``position`` records.

    Closes the source's generator at the end.
    """
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
    """Read batches, including empty ones, and generate large ones in pieces.

    A barrier waits for one piece at most. Arrow record batches are generated one by one.
    """
    runs_beside = isinstance(batches, AsyncIterator)
    async with aclosing(_each(batches)) as each:
        async for batch in each:
            if not len(batch):  # Mails run and other subtasks get a turn after it, too.
                yield []
            if runs_beside or not isinstance(batch, list):
                for piece in in_pieces(all_detached(batch, detachment)):
                    yield piece
                continue
            # No code of the source runs before the next batch. So each piece is detached when it is
            # taken, and a long list is brought into the processor's cache only once.
            is_written = are_serialised_next(batch, detachment)
            for piece in in_pieces(batch):
                given = piece if is_written else all_detached(piece, detachment)
                yield piece if given is piece else list(given)


class SourceOperator(Operator):
    """The head of a chain that reads a source instead of the network."""

    def __init__(self, source: Source) -> None:
        if not isinstance(source, Source):
            raise ConfigurationError(
                f"from_source needs a Source, not {type(source).__name__}: use from_collection for "
                "a collection"
            )
        self._source = source
        self.records_read = 0
        self._shares: list[Share] = []
        self._read = 0
        """Index of the share that the records in progress belong to."""
        self._saved: OperatorListState | None = None
        self._marker_timer: ScheduledTimer | None = None

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        self._shares = [Share(context.index, context.parallelism)]
        if context.checkpointed and not self._source.replayable:
            raise ConfigurationError(
                f'source "{context.operator_name}" cannot be read again from a position in a '
                "checkpoint: use a replayable source, or run the job without checkpoints"
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
        """Return the shares that this subtask continues; finished subtasks have left none."""
        context = self._context
        had = {subtask: [Share(*one) for one in shares] for subtask, _, shares in saved}
        # At an unchanged parallelism, each subtask continues its own shares.
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
                f'source "{context.operator_name}" cannot be read again from a position in a '
                "savepoint: a job needs replayable sources for savepoints"
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
        """Emit every record of the source.

        Other subtasks get a turn after every batch. Mails run before each batch, and while an
        asynchronous source produces one.

        Args:
            mailbox: the subtask's mailbox.
            slices: processes the batches that are cut into slices.
            looks_up: whether batches are emitted in slices, between which the subtask handles
                mails and waits for memory and room.
            cuts: whether batches may be cut for other reasons.
        """
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
                await asyncio.sleep(0)  # Other subtasks on this loop get a turn.

    async def _read_batch(self, pieces: Pieces, slices: RecordSlices, cuts: bool) -> bool:
        """Emit one batch, in slices if it may be cut; return False at the end of the source."""
        next_piece = self._next(pieces.generated)
        records = await (next_piece if pieces.are_asynchronous else slices.thread.run(next_piece))
        if records and cuts:
            await slices.work_off(records, self._emit_counted)
        elif records:
            await slices.thread.run(self._emit_counted(records))
        return records is not None

    async def _read_and_emit(self, pieces: Pieces, size: SliceSize, cuts: bool) -> bool:
        """Emit some records of a plain source; return False at the end of the source.

        In the chain's thread one call emits several batches, as many as make a step worth its
        cost. A batch that takes long is emitted in parts.
        """
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
        # Count only now, because a checkpoint's position must not include records to be emitted.
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
    """The batches of one share of a source.

    ``are_asynchronous`` says that the event loop produces them, not the chain's thread.
    """

    def __init__(
        self, generated: AsyncGenerator[list[Any], None], *, are_asynchronous: bool
    ) -> None:
        self.generated = generated
        self.are_asynchronous = are_asynchronous
        self.rest: list[Any] = []
        """Records that were read and are not emitted. The share's position does not include them,
        so a restored job reads them again."""

    async def close(self, thread: ChainThread) -> None:
        """Close the source's generator, in the place where it was iterated."""
        closing = self.generated.aclose()
        await (closing if self.are_asynchronous else thread.run(closing))


async def _read_apart(
    pieces: AsyncGenerator[list[Any], None], mailbox: Mailbox
) -> AsyncGenerator[list[Any], None]:
    """Read pieces on demand in one separate task, and run mails until each is there.

    The time counts as busy: the source itself reports when it is idle.
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

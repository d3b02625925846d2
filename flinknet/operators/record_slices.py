"""Slices of a batch, between which a subtask handles other events.

Theory of operation. A barrier that has overtaken all records must not wait for the batch in
progress. A buffer of records that take 200 microseconds each lasts a third of a second, and a batch
without memory for its results lasts as long as the backpressure. So in a job with unaligned
checkpoints a batch is processed in slices of about SLICE_S; the duration of a slice sets the size
of the next one. Between two slices the subtask runs mails, timers and triggers among them, and
handles priority events. It also waits there until every output has memory for another record, so
that a slice seldom blocks inside. (Flink does all this between two records.) A fast operator
finishes its batch in one slice and reads the clock twice. In any job, an operator that may run out
of room (``Operator.room``) has its batches sliced as well, and each slice waits for room.

The records of a batch that have not begun are the *rest*. They are in flight on the channel that
they came from: after the processed records, before the partial record in the deserializer.

Timers and windows that fire can be as many as there are keys. Their operators slice them in the
same way (``SliceSize``, ``interrupt``): the results of fired timers are emitted between two slices,
and pending timers are state. (Flink: interruptible timers, FLINK-20217.)

Invariant: between two slices, every record is in the rest, with the writers, or in operator state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from flinknet.buffer.availability import Availability, WaitReason
from flinknet.environment.task_thread import ChainThread
from flinknet.metrics.task_times import TaskTimes
from flinknet.net.task_clock import task_time, until_available
from flinknet.operators.mailbox import Mailbox
from flinknet.records.cooperative_budget import yield_to_loop
from flinknet.records.reader import RecordReader
from flinknet.records.serialization.packer import RecordPacker

__all__ = ["RecordSlices", "SliceSize"]

SLICE_S = 0.0005
"""Duration of a slice in seconds. A barrier waits this long at each subtask, and so does each turn
of a writing thread; a turn of the loop takes a thirtieth of it."""

PRESSED_S = 0.01
"""A longer wait for memory, in seconds, shows that consumers are much slower. Shorter waits change
nothing: many short slices would cost more than the barriers gain."""

RECORDS_FIRST = 64
RECORDS_MAX = 65_536
"""More records than any batch has."""


class SliceSize:
    """The number of records, timers or windows in a slice of about ``slice_s`` seconds."""

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self.records = RECORDS_FIRST
        self._slice_s = slice_s
        self._is_pressed = False

    def took(self, records: int, seconds: float) -> None:
        """Adapt the size to a finished slice of ``records`` that took ``seconds``.

        After a long slice, the size shrinks to the records that would have fitted. After a short
        one that was not the end of its batch, it doubles, or grows by one record under pressure.
        """
        if seconds > self._slice_s:
            self.records = max(1, int(records * self._slice_s / seconds))
            self._is_pressed = self._is_pressed or seconds > PRESSED_S
        elif records >= self.records:
            more = 1 if self._is_pressed else self.records
            self.records = min(self.records + more, RECORDS_MAX)
            self._is_pressed = self._is_pressed and self.records < RECORDS_FIRST

    def waited(self, seconds: float) -> None:
        """Adapt the size to a wait of ``seconds`` for memory before the next slice."""
        # With two outputs, or two channels of one, a slice can still find that the first one took
        # the last memory. The fewer records a slice has, the less often both run out within it. So
        # under pressure slices start with one record and grow slowly.
        if seconds > PRESSED_S:
            self.records = 1
            self._is_pressed = True


class RecordSlices:
    """The batches of one subtask, in slices.

    Args:
        mailbox: the mailbox to serve between two slices.
        outputs: for each output, whether it has memory for another record.
        times: accounts for the waits for that memory.
        reader: the origin of priority events; None for a source.
        packer: packs records in the form in which they arrived.
        thread: the thread in which the chain runs.
        slice_s: approximate duration of a slice, in seconds.
        rooms: for operators that wait for more than their consumers, whether they have room for
            another slice.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        outputs: Sequence[Availability],
        times: TaskTimes,
        reader: RecordReader | None,
        packer: RecordPacker,
        thread: ChainThread,
        slice_s: float = SLICE_S,
        rooms: Sequence[Availability] = (),
    ) -> None:
        self._mailbox = mailbox
        self._outputs = outputs
        self._rooms = rooms
        self._wait = mailbox.interruptible(partial(_measured_wait, times))
        self._reader = reader
        self._pack = packer.pack
        self.thread = thread
        self.size = SliceSize(slice_s)
        self._rest: list[Any] = []
        self._channel = -1

    async def work_off(
        self,
        records: list[Any],
        work: Callable[[list[Any]], Coroutine[Any, Any, None]],
        channel: int = -1,
    ) -> None:
        """Process all records of a batch, which must not be empty.

        ``channel`` is the channel of the records. The event loop runs once between two slices, so
        that mails and events can arrive.
        """
        self._rest, self._channel = records, channel
        try:
            while True:
                await self._look_up()
                size = self.size.records
                part, self._rest = self._rest[:size], self._rest[size:]
                # The working time excludes waits for other subtasks, which would shrink the slices.
                began = self.thread.working_time()
                await self.thread.run(work(part))
                self.size.took(len(part), self.thread.working_time() - began)
                if not self._rest:
                    return
                await yield_to_loop()
        finally:
            self._rest = []

    async def interrupt(self) -> None:
        """Do the work that comes between two slices, from other work of the subtask.

        If the caller is itself a mail, the other mails wait until it ends.
        """
        if self._mailbox.is_running:
            self._take_priority_events()
        else:
            await self._look_up()

    def rest_of(self, channel: int) -> Iterable[bytes]:
        """Return the records of a channel that were read and have not begun, packed one by one.

        Raises SerializationError.
        """
        return map(self._pack, self._rest) if channel == self._channel else ()

    async def _look_up(self) -> None:
        """Run mails and handle priority events until the next slice can begin.

        The operators must have room, and the outputs memory. The wait for room is the operator's
        work and counts as busy.
        """
        if self._mailbox.mails:
            await self._mailbox.run_mails()
        self._take_priority_events()
        for room in self._rooms:
            while not room.available:
                await self._until_available(room, self._mailbox.until)
                self._take_priority_events()
        for output in self._outputs:
            began = None if output.available else task_time()
            while not output.available:
                await self._until_available(output, self._until_memory)
                self._take_priority_events()
            if began is not None:
                self.size.waited(task_time() - began)

    async def _until_memory(self, some: Availability) -> None:
        await self._wait(some, WaitReason.SOFT_BACKPRESSURE)

    async def _until_available(
        self, needed: Availability, wait: Callable[[Availability], Awaitable[None]]
    ) -> None:
        """Wait for the needed availability, or for a priority event."""
        some = Availability()
        wake = partial(some.set, True)
        awaited = [needed]
        if self._reader is not None:
            awaited.append(self._reader.gate.priority_availability)
        for one in awaited:
            one.subscribe(wake)
        try:
            await wait(some)
        finally:
            for one in awaited:
                one.unsubscribe(wake)

    def _take_priority_events(self) -> None:
        if self._reader is not None and self._reader.gate.priority_availability.available:
            self._reader.take_priority_events()


async def _measured_wait(times: TaskTimes, availability: Availability, reason: WaitReason) -> None:
    with times.waiting(reason, task_time):
        await until_available(availability)

"""Slices of a batch, between which a subtask looks up from its work.

Theory of operation. A barrier that has overtaken everything else must not wait for the batch that
the subtask is at: a buffer of records that take 200 microseconds each is a third of a second, and
one whose results find no memory is as long as the backpressure lasts. So in a job with unaligned
checkpoints a batch is worked off in slices of about SLICE_S, whose size follows from how long the
last one took. Between two of them mails are run, timers and triggers among them, and the events
that have priority are handled; while no output has memory for another record, too, so that a slice
seldom waits inside. (Flink does all that between two records.) A fast operator is done with its
batch in one slice, and has looked at the clock twice.

With two outputs, or two channels of one, a slice may still find that the first one took the last
memory. Where that has lasted (PRESSED_S), slices begin with one record and grow slowly: the fewer
records one has, the seldomer both run out of memory in it.

Where an operator waits for others than those behind it, in any job, the next slice also waits until
it has room.

What of the batch has not begun, the *rest*, is in flight, on the channel that it came from: behind
what was processed, in front of what the deserializer has of the next record.

Timers and windows that fire, which may be as many as there are keys, are sliced in the same way by
who fires them (``SliceSize``, ``interrupt``): what has fired is emitted then, and what has not is
state. (Flink: interruptible timers, FLINK-20217.)

Invariant: between two slices, what is not in the rest is with the writers, or in operators' state.
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
"""Time of a slice. A barrier, and each turn of a thread that writes, waits for as long wherever it
comes; a turn of the loop takes a thirtieth of it."""

PRESSED_S = 0.01
"""A wait for memory that is as long says that others are much slower. After shorter ones nothing
changes: many short slices would cost more than the barriers gain."""

RECORDS_FIRST = 64
RECORDS_MAX = 65_536
"""More than a batch has."""


class SliceSize:
    """How many records, timers or windows make a slice of about ``slice_s`` seconds."""

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self.records = RECORDS_FIRST
        self._slice_s = slice_s
        self._is_pressed = False

    def took(self, records: int, seconds: float) -> None:
        """A slice is done, and has taken ``seconds``: a long one makes the next one as short as it
        should have been, a short one twice as long, or under pressure by a record, if it was not
        the end of its batch."""
        if seconds > self._slice_s:
            self.records = max(1, int(records * self._slice_s / seconds))
            self._is_pressed = self._is_pressed or seconds > PRESSED_S
        elif records >= self.records:
            more = 1 if self._is_pressed else self.records
            self.records = min(self.records + more, RECORDS_MAX)
            self._is_pressed = self._is_pressed and self.records < RECORDS_FIRST

    def waited(self, seconds: float) -> None:
        """There was no memory for so long before the next slice."""
        if seconds > PRESSED_S:
            self.records = 1
            self._is_pressed = True


class RecordSlices:
    """The batches of one subtask, in slices.

    Args:
        mailbox: whose mails are run in between.
        outputs: of each output, whether it has memory for another record.
        times: the account of the waits for that.
        reader: where events with priority come from; None for a source.
        packer: packs records as they came.
        thread: where the chain runs.
        slice_s: about how long a slice takes.
        rooms: of operators, whether they have room for another slice.
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
        """Have all records of a batch processed, which is not empty; ``channel`` is where they came
        from. Between two slices the loop turns, or nothing that they look up for could come."""
        self._rest, self._channel = records, channel
        try:
            while True:
                await self._look_up()
                size = self.size.records
                part, self._rest = self._rest[:size], self._rest[size:]
                began = self.thread.working_time()
                await self.thread.run(work(part))
                self.size.took(len(part), self.thread.working_time() - began)
                if not self._rest:
                    return
                await yield_to_loop()
        finally:
            self._rest = []

    async def interrupt(self) -> None:
        """Do what comes between two slices, in other work of the subtask's. If that is itself a
        mail, the others wait for its end."""
        if self._mailbox.is_running:
            self._take_priority_events()
        else:
            await self._look_up()

    def rest_of(self, channel: int) -> Iterable[bytes]:
        """The records of a channel that were read and have not begun, packed one by one. Raises
        SerializationError."""
        return map(self._pack, self._rest) if channel == self._channel else ()

    async def _look_up(self) -> None:
        """Do what comes between two slices, until there is memory for the next one, and room; the
        wait for room is the operator's work, and counts as busy."""
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
        """Wait for it, or an event with priority."""
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

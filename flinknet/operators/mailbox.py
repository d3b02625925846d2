"""The mailbox of a subtask: what others want done in its own turn.

Theory of operation (Flink's TaskMailbox and MailboxProcessor). Whoever shares the event loop with a
subtask may look at it at any time, but what he finds may be in the middle of a batch: an operator
has taken a record into its state, and what it made of it is not written yet. A *mail* is a call
that the subtask makes by itself where it stands between two batches: everything that came of the
one is with its writers, and nothing of the next one has begun. Mails are run in the order in which
they came, and no batch is processed meanwhile. What a mail returns or raises is its sender's; one
that the subtask has posted itself, a timer, has no sender, and what it raises fails the subtask.

::

    OPEN      QUIESCE -> QUIESCED, CLOSE -> CLOSED
    QUIESCED  CLOSE -> CLOSED
    CLOSED    CLOSE -> CLOSED

In OPEN mails come in and are run; in QUIESCED those that are there are run; in CLOSED none are:
senders get ClosedResourceError.

When mails are run: before a batch is asked for, where they cost the subtask a look at ``mails``;
and in any wait that ``interruptible`` made, which is one for the next batch, or, at the end, for
the consumers. A writer's wait for memory is no such wait, soft or hard: there, the rest of a batch
is still to be written. In jobs with unaligned checkpoints batches come in slices, mails are run
between them, and the wait for memory before one is interruptible (``record_slices.py``).

How long mails wait says how long a batch keeps the subtask, backpressure included:
``measure_latency`` sends one to find out (Flink's MailboxMetricsController).

Owned counters: the subtask's own mails, the mails run so far, the last time measured. Invariant: a
mailbox that is not open takes no mail, a closed one is empty.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from flinknet.buffer.availability import Availability, Wait, WaitReason
from flinknet.errors import ClosedResourceError, LocalProtocolError
from flinknet.functions.calls import value_of
from flinknet.net.task_clock import task_time, until_available
from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "Mailbox", "MailboxState", "MailboxStatistics", "MailboxStep"]

T = TypeVar("T")


class MailboxStep(Enum):
    """What moves a mailbox on."""

    QUIESCE = "quiesce"
    """The subtask has done its work."""
    CLOSE = "close"
    """It is gone."""


class MailboxState(Enum):
    """What becomes of mails."""

    OPEN = "they come in and are run"
    QUIESCED = "none come in, those that are there are run"
    CLOSED = "none come in, none are run"


TRANSITIONS: Transitions[MailboxState, MailboxStep] = Transitions(
    {
        (MailboxState.OPEN, MailboxStep.QUIESCE): MailboxState.QUIESCED,
        (MailboxState.OPEN, MailboxStep.CLOSE): MailboxState.CLOSED,
        (MailboxState.QUIESCED, MailboxStep.CLOSE): MailboxState.CLOSED,
        (MailboxState.CLOSED, MailboxStep.CLOSE): MailboxState.CLOSED,
    }
)


class MailboxStatistics(NamedTuple):
    """Mails that wait, those that have been run, and how long the last one that was measured has
    waited, or the one that is measured now if that is longer."""

    waiting: int
    run: int
    latency_ms: float


class Mail(NamedTuple):
    """A call, and the future of whoever wants it made; None for the subtask itself."""

    action: Callable[[], Any]
    answer: asyncio.Future[Any] | None


class Mailbox:
    """The mails of the subtask called ``owner``, at most ``mails_max`` at a time."""

    def __init__(self, owner: str, mails_max: int, clock: Callable[[], float] = task_time) -> None:
        self.mails: deque[Mail] = deque()
        """What waits; for the subtask to look at, and for nobody to change."""
        self.state = MailboxState.OPEN
        self.is_running = False
        """Whether a mail is being run."""
        self._owner = owner
        self._mails_max = mails_max
        self._woken = Availability()
        self._own = 0
        self._run = 0
        self._clock = clock
        self._measured_since: float | None = None
        self._latency_s = 0.0
        self._until = self.interruptible(_unmeasured_wait)

    # -- the senders' side ------------------------------------------------------------------------

    def submit(self, action: Callable[[], Any]) -> asyncio.Future[Any]:
        """Have a function or coroutine function called between two batches; the future gets what it
        returns or raises, and cancelling that in time prevents the call.

        Raises ClosedResourceError if the subtask takes no mail any more, LocalProtocolError if too
        many wait. A subtask that ends before the call, or in it, answers with ClosedResourceError.
        """
        if self.state is not MailboxState.OPEN:
            raise self._closed()
        waiting = len(self.mails) - self._own
        if waiting >= self._mails_max:
            raise LocalProtocolError(
                f"{waiting} calls wait for subtask {self._owner} to come between two "
                f"batches, as many as may (mailbox_mails_max)"
            )
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.mails.append(Mail(action, answer))
        self._woken.set(True)
        return answer

    def post(self, action: Callable[[], Any]) -> None:
        """Have a function or coroutine function of the subtask's own called between two batches;
        what it raises fails the subtask. Nothing is called once no mail is taken any more."""
        if self.state is MailboxState.OPEN:
            self.mails.append(Mail(action, None))
            self._own += 1
            self._woken.set(True)

    def measure_latency(self) -> None:
        """Find out how long a mail waits now, unless that is under way; harmless if none is
        taken."""
        has_room = len(self.mails) - self._own < self._mails_max
        takes_mail = self.state is MailboxState.OPEN and has_room
        if self._measured_since is None and takes_mail:
            self._measured_since = self._clock()
            self.submit(self._end_measurement)

    def _end_measurement(self) -> None:
        self._latency_s = self._waited_s()
        self._measured_since = None

    def _waited_s(self) -> float:
        since = self._measured_since
        return 0.0 if since is None else self._clock() - since

    # -- the subtask's side -----------------------------------------------------------------------

    async def run_mails(self) -> None:
        """Run the mails that are there, in order; those that come meanwhile are for the next time,
        so that no sender can keep the subtask from its work."""
        self.is_running = True
        try:
            await self._run_mails()
        finally:
            self.is_running = False

    async def _run_mails(self) -> None:
        for _ in range(len(self.mails)):
            if not self.mails:
                return
            mail = self.mails.popleft()
            if mail.answer is None:
                self._own -= 1
                self._run += 1
                await _called(mail.action)
                continue
            if mail.answer.done():
                continue
            try:
                result = await _called(mail.action)
            except Exception as error:
                if not mail.answer.done():
                    mail.answer.set_exception(error)
            except BaseException:
                self._return(mail)
                raise
            else:
                if not mail.answer.done():
                    mail.answer.set_result(result)
            self._run += 1

    def interruptible(self, wait: Wait) -> Wait:
        """Make a wait in which mails are run, for where the subtask stands between two batches."""
        woken = self._woken

        def wake() -> None:
            woken.set(True)

        async def interruptible_wait(availability: Availability, reason: WaitReason) -> None:
            while not availability.available:
                if self.mails:
                    await self.run_mails()
                    continue
                woken.set(False)
                availability.subscribe(wake)
                try:
                    await wait(woken, reason)
                finally:
                    availability.unsubscribe(wake)

        return interruptible_wait

    async def until(self, availability: Availability) -> None:
        """Suspend until something is available, and run mails meanwhile; somebody else says what
        the time counts as."""
        await self._until(availability, WaitReason.IDLE)

    async def run_beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Run mails while ``work`` is done in a task of its own; return what it returns."""
        task = asyncio.create_task(work)
        done = Availability()
        task.add_done_callback(lambda _: done.set(True))
        try:
            await self.until(done)
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        return task.result()

    def quiesce(self) -> None:
        """Take no more mails."""
        self.state = TRANSITIONS[self.state, MailboxStep.QUIESCE]

    def close(self) -> None:
        """Run no more mails: who waits for one learns that the subtask is gone. Idempotent."""
        self.state = TRANSITIONS[self.state, MailboxStep.CLOSE]
        while self.mails:
            self._return(self.mails.popleft())
        self._own = 0

    def _return(self, mail: Mail) -> None:
        if mail.answer is not None and not mail.answer.done():
            mail.answer.set_exception(self._closed())
            mail.answer.exception()  # Who does not ask does not mind.

    def _closed(self) -> ClosedResourceError:
        return ClosedResourceError(f"subtask {self._owner} has ended, or is about to")

    def statistics(self) -> MailboxStatistics:
        """Return the present counts."""
        return MailboxStatistics(
            waiting=len(self.mails),
            run=self._run,
            latency_ms=1000 * max(self._latency_s, self._waited_s()),
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        assert self._own == sum(mail.answer is None for mail in self.mails), "own mails miscounted"
        assert len(self.mails) - self._own <= self._mails_max, "more mails wait than may"
        assert not (self.state is MailboxState.CLOSED and self.mails), "closed but not empty"


async def _unmeasured_wait(availability: Availability, reason: WaitReason) -> None:
    await until_available(availability)


async def _called(action: Callable[[], Any]) -> Any:
    return await value_of(action())

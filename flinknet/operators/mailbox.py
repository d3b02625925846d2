"""The mailbox of a subtask: calls that other components want made in the subtask's own turn.

Theory of operation (Flink's TaskMailbox and MailboxProcessor). Code on the same event loop can look
at a subtask at any time, but may find it in the middle of a batch: an operator has put a record
into its state, and the results are not written yet. A *mail* is a call that the subtask itself
makes between two batches. All results of the batch before are then with the writers, and nothing of
the next batch has begun. Mails run in the order of arrival, and no batch is processed meanwhile.
The result or error of a mail goes to its sender. A timer is a mail that the subtask posts itself;
it has no sender, so its error fails the subtask.

::

    OPEN      QUIESCE -> QUIESCED, CLOSE -> CLOSED
    QUIESCED  CLOSE -> CLOSED
    CLOSED    CLOSE -> CLOSED

An OPEN mailbox accepts and runs mails, a QUIESCED one only runs the mails it has, and a CLOSED one
answers senders with ClosedResourceError.

Mails run before a batch is requested, and in every wait made by ``interruptible``: the wait for the
next batch, and, at the end, the wait for the consumers. A writer's wait for memory, soft or hard,
is not interruptible, because the rest of a batch is still to be written. In jobs with unaligned
checkpoints, batches come in slices: mails run between slices, and the wait for memory before a
slice is interruptible (``record_slices.py``).

Invariant: a mailbox that is not open accepts no mail, and a closed one is empty.
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
    """An event that changes the state of a mailbox."""

    QUIESCE = "quiesce"
    """The subtask has finished its work."""
    CLOSE = "close"
    """The subtask has ended."""


class MailboxState(Enum):
    """The state of a mailbox, which decides about mails."""

    OPEN = "mails are accepted and run"
    QUIESCED = "no mails are accepted, waiting ones are run"
    CLOSED = "no mails are accepted or run"


TRANSITIONS: Transitions[MailboxState, MailboxStep] = Transitions(
    {
        (MailboxState.OPEN, MailboxStep.QUIESCE): MailboxState.QUIESCED,
        (MailboxState.OPEN, MailboxStep.CLOSE): MailboxState.CLOSED,
        (MailboxState.QUIESCED, MailboxStep.CLOSE): MailboxState.CLOSED,
        (MailboxState.CLOSED, MailboxStep.CLOSE): MailboxState.CLOSED,
    }
)


class MailboxStatistics(NamedTuple):
    """Counts of waiting and executed mails, and a latency.

    ``latency_ms`` is the time that the last measured mail has waited. If a measurement is in
    progress and has lasted longer, it is the time so far.
    """

    waiting: int
    run: int
    latency_ms: float


class Mail(NamedTuple):
    """A call and the future of its sender, which is None if the subtask posted the mail itself."""

    action: Callable[[], Any]
    answer: asyncio.Future[Any] | None


class Mailbox:
    """The mails of the subtask named ``owner``; at most ``mails_max`` mails of senders wait."""

    def __init__(self, owner: str, mails_max: int, clock: Callable[[], float] = task_time) -> None:
        self.mails: deque[Mail] = deque()
        """The waiting mails, in order. The subtask reads them; only the mailbox changes them."""
        self.state = MailboxState.OPEN
        self.is_running = False
        """Whether a mail is running."""
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
        """Have a function or coroutine function called between two batches.

        The returned future gets the result or the error. Cancelling it before the call prevents
        the call. A subtask that ends before or during the call sets ClosedResourceError.

        Raises ClosedResourceError if the mailbox accepts no mail any more, LocalProtocolError if
        too many mails wait.
        """
        if self.state is not MailboxState.OPEN:
            raise self._closed()
        waiting = len(self.mails) - self._own
        if waiting >= self._mails_max:
            raise LocalProtocolError(
                f"{waiting} calls wait for subtask {self._owner} to finish a batch, which is the "
                "limit (mailbox_mails_max)"
            )
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.mails.append(Mail(action, answer))
        self._woken.set(True)
        return answer

    def post(self, action: Callable[[], Any]) -> None:
        """Have a function or coroutine function of the subtask itself called between two batches.

        An error of the call fails the subtask. A mailbox that is not open ignores the call.
        """
        if self.state is MailboxState.OPEN:
            self.mails.append(Mail(action, None))
            self._own += 1
            self._woken.set(True)

    def measure_latency(self) -> None:
        """Measure how long a mail waits now (Flink's MailboxMetricsController).

        This is the time for which a batch keeps the subtask busy, backpressure included. Does
        nothing if a measurement is in progress or the mailbox accepts no mail.
        """
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
        """Run the mails that wait now, in order.

        Mails that arrive meanwhile run the next time, so that no sender can keep the subtask from
        its work.
        """
        self.is_running = True
        try:
            await self._run_mails()
        finally:
            self.is_running = False

    async def _run_mails(self) -> None:
        for _ in range(len(self.mails)):
            if not self.mails:  # A mail has closed the mailbox.
                return
            mail = self.mails.popleft()
            if mail.answer is None:
                self._own -= 1
                self._run += 1
                await _called(mail.action)
                continue
            if mail.answer.done():  # The sender has cancelled the call.
                continue
            try:
                result = await _called(mail.action)
            except Exception as error:
                if not mail.answer.done():
                    mail.answer.set_exception(error)
            except BaseException:  # The subtask ends within the call. The sender must learn it.
                self._return(mail)
                raise
            else:
                if not mail.answer.done():
                    mail.answer.set_result(result)
            self._run += 1

    def interruptible(self, wait: Wait) -> Wait:
        """Return a wait that runs mails, for places where the subtask is between two batches."""
        woken = self._woken

        def wake() -> None:
            woken.set(True)

        async def interruptible_wait(availability: Availability, reason: WaitReason) -> None:
            while not availability.available:
                if self.mails:
                    await self.run_mails()
                    continue
                # A new mail sets ``woken``, too, so that it ends the wait.
                woken.set(False)
                availability.subscribe(wake)
                try:
                    await wait(woken, reason)
                finally:
                    availability.unsubscribe(wake)

        return interruptible_wait

    async def until(self, availability: Availability) -> None:
        """Wait until something is available, and run mails meanwhile.

        The caller accounts for the time: the wait itself is not measured.
        """
        await self._until(availability, WaitReason.IDLE)

    async def run_beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Run mails while ``work`` runs in a separate task; return the result of ``work``."""
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
        """Accept no more mails."""
        self.state = TRANSITIONS[self.state, MailboxStep.QUIESCE]

    def close(self) -> None:
        """End the mailbox: waiting senders get ClosedResourceError. Idempotent."""
        self.state = TRANSITIONS[self.state, MailboxStep.CLOSE]
        while self.mails:
            self._return(self.mails.popleft())
        self._own = 0

    def _return(self, mail: Mail) -> None:
        if mail.answer is not None and not mail.answer.done():
            mail.answer.set_exception(self._closed())
            # Mark the error as retrieved: asyncio would log it if the sender no longer waits.
            mail.answer.exception()

    def _closed(self) -> ClosedResourceError:
        return ClosedResourceError(f"subtask {self._owner} has ended, or is ending")

    def statistics(self) -> MailboxStatistics:
        """Return the present counts."""
        return MailboxStatistics(
            waiting=len(self.mails),
            run=self._run,
            latency_ms=1000 * max(self._latency_s, self._waited_s()),
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the counts are inconsistent."""
        assert self._own == sum(mail.answer is None for mail in self.mails), (
            "the subtask's own mails are miscounted"
        )
        assert len(self.mails) - self._own <= self._mails_max, "too many mails wait"
        assert not (self.state is MailboxState.CLOSED and self.mails), "closed but not empty"


async def _unmeasured_wait(availability: Availability, reason: WaitReason) -> None:
    await until_available(availability)


async def _called(action: Callable[[], Any]) -> Any:
    return await value_of(action())

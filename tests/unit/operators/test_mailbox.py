from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from flinknet.buffer.availability import Availability, WaitReason
from flinknet.errors import ClosedResourceError, LocalProtocolError
from flinknet.net.task_clock import until_available
from flinknet.operators import mailbox as module
from flinknet.operators.mailbox import (
    TRANSITIONS,
    Mailbox,
    MailboxState,
    MailboxStatistics,
    MailboxStep,
)
from tests.unit.tables import named, shown_in

IDLE = WaitReason.IDLE


async def wait(availability: Availability, reason: WaitReason) -> None:
    """Wait as the shell does."""
    await until_available(availability)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox("Map (1/1)", 3)


def mailbox_in(state: MailboxState) -> Mailbox:
    mailbox = Mailbox("Map (1/1)", 3)
    if state is MailboxState.QUIESCED:
        mailbox.quiesce()
    if state is MailboxState.CLOSED:
        mailbox.close()
    return mailbox


@pytest.mark.parametrize("state", MailboxState)
async def test_a_mailbox_goes_by_the_table(state: MailboxState) -> None:
    for step, happens in (
        (MailboxStep.QUIESCE, Mailbox.quiesce),
        (MailboxStep.CLOSE, Mailbox.close),
    ):
        mailbox = mailbox_in(state)
        if (state, step) in TRANSITIONS:
            happens(mailbox)
            assert mailbox.state is TRANSITIONS[state, step]
        else:
            with pytest.raises(AssertionError, match="must not happen"):
                happens(mailbox)


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize("state", MailboxState)
async def test_only_an_open_mailbox_takes_mail(state: MailboxState) -> None:
    mailbox = mailbox_in(state)
    assert mailbox.state is state
    if state is MailboxState.OPEN:
        mailbox.submit(int)
        return
    with pytest.raises(ClosedResourceError, match=r"Map \(1/1\) has ended"):
        mailbox.submit(int)
    mailbox.check_invariants()


async def test_mails_are_run_in_order_and_answered(mailbox: Mailbox) -> None:
    order: list[str] = []

    async def slow() -> str:
        order.append("begun")
        await asyncio.sleep(0)
        order.append("ended")
        return "slow"

    answers = [mailbox.submit(slow), mailbox.submit(lambda: order.append("quick"))]
    assert order == []
    await mailbox.run_mails()
    assert order == ["begun", "ended", "quick"]
    assert [answer.result() for answer in answers] == ["slow", None]
    assert mailbox.statistics() == MailboxStatistics(waiting=0, run=2, latency_ms=0)


def raise_stop() -> None:
    raise StopIteration


@pytest.mark.parametrize(
    ("action", "error"), [(lambda: int("x"), ValueError), (raise_stop, RuntimeError)]
)
async def test_an_error_is_its_senders(
    mailbox: Mailbox, action: Callable[[], Any], error: type[Exception]
) -> None:
    answer, following = mailbox.submit(action), mailbox.submit(int)
    await mailbox.run_mails()
    with pytest.raises(error):
        await answer
    assert following.result() == 0


async def test_a_cancelled_call_is_not_made(mailbox: Mailbox) -> None:
    made: list[int] = []
    mailbox.submit(lambda: made.append(1)).cancel()
    mailbox.submit(lambda: made.append(2))
    await mailbox.run_mails()
    assert made == [2]


async def test_a_sender_may_leave_in_the_middle_of_its_call(mailbox: Mailbox) -> None:
    answers: list[asyncio.Future[Any]] = []

    def leave() -> None:
        answers[-1].cancel()

    def leave_and_fail() -> None:
        leave()
        raise ValueError

    for action in (leave, leave_and_fail):
        answers.append(mailbox.submit(action))
        await mailbox.run_mails()
        assert answers[-1].cancelled()


async def test_too_many_mails_are_refused(mailbox: Mailbox) -> None:
    for _ in range(3):
        mailbox.submit(int)
    with pytest.raises(LocalProtocolError, match=r"3 calls wait for .*mailbox_mails_max"):
        mailbox.submit(int)
    mailbox.check_invariants()
    await mailbox.run_mails()
    mailbox.submit(int)


async def test_mails_sent_by_mails_do_not_starve_the_subtask(
    mailbox: Mailbox,
) -> None:
    def again() -> None:
        mailbox.submit(again)

    mailbox.submit(again)
    await mailbox.run_mails()
    assert mailbox.statistics() == MailboxStatistics(waiting=1, run=1, latency_ms=0)


async def test_a_quiesced_mailbox_still_runs_what_it_has(mailbox: Mailbox) -> None:
    answer = mailbox.submit(lambda: "run")
    mailbox.quiesce()
    await mailbox.run_mails()
    assert answer.result() == "run"


async def test_a_closed_mailbox_returns_what_it_has(mailbox: Mailbox) -> None:
    answer, left = mailbox.submit(int), mailbox.submit(int)
    left.cancel()
    mailbox.close()
    mailbox.close()
    with pytest.raises(ClosedResourceError):
        await answer
    mailbox.check_invariants()


async def test_a_mail_may_close_the_mailbox(mailbox: Mailbox) -> None:
    mailbox.submit(mailbox.close)
    behind = mailbox.submit(int)
    await mailbox.run_mails()
    with pytest.raises(ClosedResourceError):
        await behind


async def test_a_subtask_cancelled_in_a_mail_answers_it(mailbox: Mailbox) -> None:
    begun = asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    answer = mailbox.submit(endless)
    running = asyncio.create_task(mailbox.run_mails())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ClosedResourceError):
        await answer


# -- waits -----------------------------------------------------------------------------------------


async def test_a_mail_is_run_in_a_wait_which_goes_on_behind_it(mailbox: Mailbox) -> None:
    data = Availability()
    waiting = asyncio.ensure_future(mailbox.interruptible(wait)(data, IDLE))
    for number in range(3):
        await asyncio.sleep(0)
        assert await mailbox.submit(partial(int, number)) == number
        assert not waiting.done()
    data.set(True)
    await waiting
    assert data.waiting == 0


async def test_a_mail_that_is_there_already_is_run_before_waiting(mailbox: Mailbox) -> None:
    data = Availability()
    answer = mailbox.submit(lambda: data.set(True))
    await mailbox.interruptible(wait)(data, IDLE)
    assert answer.done()


async def test_an_available_object_is_not_awaited(mailbox: Mailbox) -> None:
    answer = mailbox.submit(int)
    await mailbox.interruptible(wait)(Availability(available=True), IDLE)
    assert not answer.done(), "and the mail has its turn before the next batch"


async def test_a_cancelled_wait_leaves_nothing_behind(mailbox: Mailbox) -> None:
    data = Availability()
    waiting = asyncio.ensure_future(mailbox.interruptible(wait)(data, IDLE))
    await asyncio.sleep(0)
    assert data.waiting == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert data.waiting == 0


async def test_mails_are_run_beside_work(mailbox: Mailbox) -> None:
    released = asyncio.Event()

    async def work() -> str:
        await released.wait()
        return "done"

    beside = asyncio.create_task(mailbox.run_beside(work()))
    await asyncio.sleep(0)
    await mailbox.submit(released.set)
    assert await beside == "done"


async def test_an_error_of_the_work_is_raised_to_the_waiter(mailbox: Mailbox) -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await mailbox.run_beside(work())


async def test_work_is_cancelled_with_its_waiter(mailbox: Mailbox) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cancelled")

    beside = asyncio.create_task(mailbox.run_beside(work()))
    while not ended:
        await asyncio.sleep(0)
        beside.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beside


# -- latency ---------------------------------------------------------------------------------------


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_latency_is_how_long_a_mail_waits() -> None:
    clock = Clock()
    mailbox = Mailbox("Map (1/1)", 3, clock)
    assert mailbox.statistics().latency_ms == 0
    mailbox.measure_latency()
    clock.now += 2.0
    mailbox.measure_latency()
    assert len(mailbox.mails) == 1, "one measurement at a time"
    assert mailbox.statistics().latency_ms == 2000, "and it counts while it is under way"
    clock.now += 1.0
    await mailbox.run_mails()
    clock.now += 5.0
    assert mailbox.statistics().latency_ms == 3000
    mailbox.measure_latency()
    await mailbox.run_mails()
    assert mailbox.statistics().latency_ms == 0


async def test_latency_is_not_measured_where_no_mail_is_taken(mailbox: Mailbox) -> None:
    for _ in range(3):
        mailbox.submit(int)
    mailbox.measure_latency()
    assert len(mailbox.mails) == 3
    mailbox.close()
    mailbox.measure_latency()
    assert mailbox.statistics().waiting == 0


async def test_the_subtask_s_own_mail_is_run_among_the_others(mailbox: Mailbox) -> None:
    """It takes no slot of a submitted call, and its result is dropped."""
    done: list[int] = []
    for number in range(4):
        mailbox.post(partial(done.append, number))
    answers = [mailbox.submit(partial(done.append, number)) for number in (4, 5, 6)]
    mailbox.check_invariants()
    with pytest.raises(LocalProtocolError, match="3 calls wait"):
        mailbox.submit(print)
    await mailbox.run_mails()
    assert done == [0, 1, 2, 3, 4, 5, 6]
    assert all(answer.done() for answer in answers)
    assert mailbox.statistics().run == 7
    mailbox.check_invariants()


async def test_an_error_of_the_subtasks_own_mail_fails_the_subtask(mailbox: Mailbox) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    mailbox.post(fail)
    with pytest.raises(ZeroDivisionError):
        await mailbox.run_mails()
    mailbox.check_invariants()


async def test_nothing_is_posted_to_a_mailbox_that_takes_no_mail(mailbox: Mailbox) -> None:
    mailbox.post(print)
    mailbox.close()
    mailbox.check_invariants()
    mailbox.post(print)
    assert not mailbox.mails

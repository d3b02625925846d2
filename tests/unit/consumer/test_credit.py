"""The account of a channel's credit: credit is announced when it is due, and none is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.consumer import credit as module
from flinknet.consumer.credit import TRANSITIONS, ChannelCredit, CreditEvent, CreditState
from tests.unit.tables import named, shown_in, way_to

S, E = CreditState, CreditEvent


def happens(credit: ChannelCredit, event: CreditEvent) -> None:
    match event:
        case E.OFFER:
            credit.settle(1, free=8, queued=0, backlog=0, is_busy=False)
        case E.HOLD:
            credit.settle(1, free=8, queued=0, backlog=0, is_busy=True)
        case E.ANNOUNCE if credit.state is S.NONE:
            credit.settle(1, free=8, queued=0, backlog=1, is_busy=False)
        case E.ANNOUNCE:
            assert credit.announce()
        case E.TAKE:
            assert credit.take() > 0


@pytest.mark.parametrize("event", E)
@pytest.mark.parametrize("state", S)
def test_every_pair_of_state_and_event(state: CreditState, event: CreditEvent) -> None:
    """An event outside the table changes nothing or cannot happen in that state."""
    credit = ChannelCredit()
    for step in way_to(state, S.NONE, TRANSITIONS):
        happens(credit, step)
    assert credit.state is state
    if (state, event) in TRANSITIONS:
        happens(credit, event)
        assert credit.state is TRANSITIONS[state, event]
    elif event is E.TAKE:
        assert credit.take() == 0
        assert credit.state is state
    else:
        assert state is S.DUE
        assert not credit.announce()
        assert credit.state is state
    credit.check_invariants(free=8, is_busy=True)


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize(
    ("number", "free", "queued", "backlog", "is_busy", "state"),
    [
        (1, 2, 0, 0, False, S.OFFERED),
        (2, 3, 0, 0, False, S.DUE),
        (1, 2, 0, 1, False, S.DUE),
        (5, 4, 3, 0, True, S.HELD),
        (6, 4, 4, 0, True, S.DUE),
        (5, 4, 3, 9, True, S.HELD),
    ],
    ids=[
        "the producer has as much as waits",
        "the producer has less than waits",
        "the producer has data",
        "the gate is busy",
        "the gate is busy and three quarters wait",
        "the gate is busy, whatever the producer has",
    ],
)
def test_when_credit_is_due(
    number: int, free: int, queued: int, backlog: int, is_busy: bool, state: CreditState
) -> None:
    credit = ChannelCredit()
    settled = credit.settle(number, free=free, queued=queued, backlog=backlog, is_busy=is_busy)
    assert settled is credit.state is state
    assert credit.unannounced == number
    credit.check_invariants(free, is_busy=is_busy)


def test_credit_becomes_due_when_the_producer_uses_it_up() -> None:
    credit = ChannelCredit()
    assert credit.settle(2, free=4, queued=0, backlog=0, is_busy=False) is S.OFFERED
    assert credit.settle(0, free=3, queued=1, backlog=0, is_busy=False) is S.DUE
    assert credit.take() == 2


def test_buffers_freed_while_credit_is_due_are_announced_too() -> None:
    credit = ChannelCredit()
    credit.settle(1, free=1, queued=0, backlog=1, is_busy=False)
    credit.add(2)
    assert credit.take() == 3
    assert credit.state is S.NONE


def test_dropped_credit_is_taken_as_none() -> None:
    credit = ChannelCredit()
    credit.settle(1, free=1, queued=0, backlog=1, is_busy=False)
    credit.drop()
    credit.check_invariants(free=0, is_busy=False)
    assert credit.take() == 0


def test_nothing_is_announced_where_there_is_nothing() -> None:
    assert not ChannelCredit().announce()


def test_credit_held_back_from_a_producer_that_may_need_it_breaks_an_invariant() -> None:
    credit = ChannelCredit()
    credit.settle(2, free=4, queued=0, backlog=0, is_busy=False)
    with pytest.raises(AssertionError, match="held back"):
        credit.check_invariants(free=3, is_busy=False)


@given(st.lists(st.tuples(st.sampled_from(["free", "take", "announce"]), st.booleans())))
def test_every_free_buffer_is_announced_once(steps: list[tuple[str, bool]]) -> None:
    credit, free, announced = ChannelCredit(), 0, 0
    for step, is_busy in steps:
        if step == "take":
            announced += credit.take()
        elif step == "announce":
            credit.announce()
        else:
            free += 1
            if credit.state is S.DUE:
                credit.add(1)
            else:
                credit.settle(1, free=free, queued=0, backlog=0, is_busy=is_busy)
        assert announced + credit.unannounced == free
    assert credit.take() + announced == free

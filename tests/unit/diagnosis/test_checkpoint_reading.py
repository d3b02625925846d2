"""The places where the barriers of a checkpoint were held up."""

from __future__ import annotations

import pytest

from tests.unit.diagnosis.checkpoints import checkpoint, part
from tests.unit.diagnosis.jobs import pipeline


def test_a_wait_is_on_account_of_the_task_in_front_of_which_it_was() -> None:
    one = checkpoint({(0, 0): part(), (1, 0): part(3.0, 1.0), (2, 0): part(4.5)})
    waits = one.waits(pipeline(1, 1, 1))
    assert [task for task, _ in waits] == [(1, 0), (2, 0), (0, 0)]
    assert [seconds for _, seconds in waits] == pytest.approx([4.0, 0.5, 0.0])


def test_the_last_of_the_producers_counts() -> None:
    one = checkpoint({(0, 0): part(), (0, 1): part(2.0), (1, 0): part(2.5), (1, 1): part(2.0)})
    assert dict(one.waits(pipeline(2, 2)))[1, 0] == pytest.approx(0.5)
    pointwise = dict(one.waits(pipeline(2, 2, pointwise=True)))
    assert [pointwise[1, index] for index in range(2)] == pytest.approx([2.5, 0.0])


def test_a_barrier_that_has_not_come_waits_up_to_now_and_only_where_it_can_be() -> None:
    one = checkpoint({(0, 0): part(1.0)}, 10.0, is_under_way=True)
    assert dict(one.waits(pipeline(1, 1, 1))) == {(0, 0): 1.0, (1, 0): 9.0, (2, 0): 0.0}


def test_who_had_finished_holds_up_nothing() -> None:
    one = checkpoint({(1, 0): part(2.0)}, 10.0, finished={(0, 0)})
    assert dict(one.waits(pipeline(1, 1))) == {(0, 0): 0.0, (1, 0): 2.0}
    assert [one.has_taken_part(task) for task in ((0, 0), (1, 0), (1, 1))] == [True, True, False]


def test_in_flight_data_is_what_barriers_have_overtaken() -> None:
    parts = {
        (0, 0): part(state_bytes=10),
        (1, 0): part(state_bytes=320, persisted_bytes=300, unaligned=True),
        (1, 1): part(state_bytes=400, persisted_bytes=400, unaligned=True),
    }
    one = checkpoint(parts)
    assert (one.state_bytes, one.in_flight_bytes, one.is_unaligned) == (30, 700, True)
    assert list(one.heaviest()) == [(1, 1), (1, 0)]
    assert not checkpoint({(0, 0): part()}).is_unaligned

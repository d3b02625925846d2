"""The state table of a job's recovery, and the data of each of its states."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flinknet.cluster.coordinator.checkpoints import checkpoint_completer
from flinknet.cluster.coordinator.jobs import (
    checkpoint_requests,
    dispatcher,
    job_starts,
    order_executor,
    recovery,
)
from flinknet.cluster.coordinator.jobs.recovery import (
    TRANSITIONS,
    Answer,
    Recovery,
    RecoveryEvent,
    RecoveryState,
    Scope,
)
from tests.unit.tables import named, shown_in, way_to

SLOTS_TIMEOUT_S = 20.0

DO: dict[RecoveryEvent, Callable[[Recovery], object]] = {
    RecoveryEvent.BEGIN: Recovery.begin,
    RecoveryEvent.QUEUE: lambda one: one.queue(1.0, 60.0),
    RecoveryEvent.RESUME: Recovery.resume,
    RecoveryEvent.GET_WORKER: lambda one: one.get_worker(6.0),
    RecoveryEvent.FAIL: lambda one: one.fail(3.0),
    RecoveryEvent.FAIL_REGIONS: lambda one: one.fail_regions(2.0),
    RecoveryEvent.SPREAD: Recovery.spread,
    RecoveryEvent.SEEK: Recovery.seek,
    RecoveryEvent.ANSWER: lambda one: one.answered(Answer(), 1.0),
    RecoveryEvent.LACK_SLOTS: lambda one: one.lack_slots(4.0),
    RecoveryEvent.GIVE_UP: Recovery.give_up,
    RecoveryEvent.END: lambda one: one.end(9.0, cancelled=False),
}

SILENT = {RecoveryEvent.SPREAD, RecoveryEvent.GET_WORKER}
"""The dispatcher calls these for every job; they concern only some jobs."""

PENDING = {
    RecoveryState.QUEUED,
    RecoveryState.AWAITING_WORKERS,
    RecoveryState.BACKING_OFF,
    RecoveryState.SEEKING,
    RecoveryState.READY,
    RecoveryState.WAITING_FOR_SLOTS,
}


def after(*events: RecoveryEvent) -> Recovery:
    one = Recovery(SLOTS_TIMEOUT_S)
    for event in events:
        DO[event](one)
    return one


def regions_first(state: RecoveryState) -> list[RecoveryEvent]:
    """Return the way to a state; its first failure is one of regions, if that way is as short."""
    way = way_to(state, RecoveryState.RUNNING, TRANSITIONS)
    if way and way[0] is RecoveryEvent.FAIL:
        way[0] = RecoveryEvent.FAIL_REGIONS
    return way


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(recovery.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize("event", RecoveryEvent)
@pytest.mark.parametrize("state", RecoveryState)
def test_every_event_in_every_state(state: RecoveryState, event: RecoveryEvent) -> None:
    one = after(*regions_first(state))
    assert one.state is state
    if (state, event) in TRANSITIONS:
        DO[event](one)
        assert one.state is TRANSITIONS[state, event]
    elif event in SILENT:
        DO[event](one)
        assert one.state is state
    else:
        with pytest.raises(AssertionError):
            DO[event](one)
        assert one.state is state


@pytest.mark.parametrize("state", RecoveryState)
def test_a_state_has_only_its_own_data(state: RecoveryState) -> None:
    one = after(*regions_first(state))
    assert (one.scope is not None) is (state in PENDING)
    assert (one.ended_at is not None) is (state is RecoveryState.ENDED)
    assert not one.is_cancelled
    is_timed = state in PENDING - {RecoveryState.SEEKING, RecoveryState.AWAITING_WORKERS}
    assert (one.deadline is not None) is one.is_due(99.0) is is_timed
    if state in PENDING:
        assert one.answer == Answer()
    else:
        with pytest.raises(AssertionError, match=f"nothing begins again in {state.name}"):
            _ = one.answer


def test_a_restart_of_the_whole_job_does_not_spread() -> None:
    one = after(RecoveryEvent.FAIL, RecoveryEvent.SPREAD)
    assert (one.state, one.scope) == (RecoveryState.BACKING_OFF, Scope.JOB)


def test_a_restart_comes_at_the_latest_of_its_times() -> None:
    one = Recovery(SLOTS_TIMEOUT_S)
    one.fail_regions(5.0)
    one.fail_regions(3.0)
    assert (one.deadline, one.is_due(4.9), one.is_due(5.0)) == (5.0, False, True)
    one.seek()
    assert (one.deadline, one.is_due(99.0)) == (None, False)
    one.fail_regions(7.0)
    one.answered(Answer(), 6.0)
    assert one.deadline == 7.0
    assert not one.lack_slots(8.0)
    assert (one.deadline, one.is_due(7.0)) == (27.0, True)
    assert one.lack_slots(27.0)
    one.fail_regions(30.0)
    assert one.deadline == 30.0, "it has not waited for slots since"


def test_a_first_attempt_waits_as_long_as_its_submission_says() -> None:
    one = after(RecoveryEvent.QUEUE)
    assert (one.deadline, one.is_due(1.0)) == (61.0, True)
    assert not one.lack_slots(60.9)
    assert (one.state, one.deadline) == (RecoveryState.QUEUED, 61.0)
    assert one.lack_slots(61.0)


def test_slots_are_waited_for_from_the_answer_on() -> None:
    one = after(RecoveryEvent.FAIL, RecoveryEvent.SEEK)
    one.answered(Answer(), 50.0)
    assert not one.lack_slots(69.0)
    assert one.deadline == 70.0


def test_an_answer_is_not_seen_by_a_wider_scope() -> None:
    refusal = Answer("no", is_final=True)
    for widen in (RecoveryEvent.FAIL_REGIONS, RecoveryEvent.SPREAD):
        one = after(RecoveryEvent.FAIL_REGIONS, RecoveryEvent.SEEK)
        one.answered(refusal, 1.0)
        assert one.answer is refusal
        DO[widen](one)
        if widen is RecoveryEvent.SPREAD:
            one.fail(8.0)
        assert (one.state, one.answer) == (RecoveryState.BACKING_OFF, Answer())


def test_a_search_that_is_not_answered_is_taken_over_by_the_job() -> None:
    one = after(RecoveryEvent.FAIL_REGIONS, RecoveryEvent.SEEK, RecoveryEvent.SPREAD)
    assert (one.state, one.scope) == (RecoveryState.SEEKING_IN_VAIN, None)
    one.fail(8.0)
    assert (one.state, one.scope) == (RecoveryState.SEEKING, Scope.JOB)


def test_an_attempt_that_begins_with_a_final_answer_is_the_last() -> None:
    one = after(RecoveryEvent.FAIL, RecoveryEvent.SEEK)
    one.answered(Answer("no", is_final=True), 1.0)
    one.begin()
    assert one.state is RecoveryState.GIVING_UP


def test_a_worker_that_comes_ends_the_wait_of_a_job_that_was_taken_over() -> None:
    one = after(RecoveryEvent.RESUME, RecoveryEvent.FAIL)
    assert (one.scope, one.deadline) == (Scope.JOB, None)
    one.get_worker(2.0)
    assert one.deadline == 2.0


def test_a_client_may_end_the_job() -> None:
    one = after(RecoveryEvent.FAIL)
    one.end(4.0, cancelled=True)
    assert (one.ended_at, one.is_cancelled) == (4.0, True)


@pytest.mark.parametrize(
    "module",
    [dispatcher, job_starts, order_executor, checkpoint_requests, checkpoint_completer],
    ids=lambda one: one.__name__,
)
def test_callers_of_a_job_record_write_none_of_its_attributes(module: object) -> None:
    source = Path(str(getattr(module, "__file__"))).read_text()  # noqa: B009
    assert list(written_of_records(ast.parse(source))) == []


def test_such_a_write_would_be_seen() -> None:
    source = "record.a = record.b.c = record.d[0] = 1\nfor one.e, two in x: record.f += 1\none = 1"
    written = set(written_of_records(ast.parse(source)))
    assert written == {"record.a", "record.b.c", "record.d[0]", "one.e", "record.f"}


def written_of_records(tree: ast.AST) -> Iterator[str]:
    """Yield the attributes and items that code assigns or deletes, of objects named like a job
    record."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Subscript):
            continue
        root: ast.expr = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        is_record = isinstance(root, ast.Name) and root.id in ("record", "one")
        if is_record and not isinstance(node.ctx, ast.Load):
            yield ast.unparse(node)

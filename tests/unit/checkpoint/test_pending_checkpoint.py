"""A pending checkpoint: its participants, and its end."""

from __future__ import annotations

import pytest

from flinknet.checkpoint import pending_checkpoint as module
from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.pending_checkpoint import (
    TRANSITIONS,
    CheckpointEvent,
    CheckpointState,
    PendingCheckpoint,
    SubtaskReport,
)
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.tables import named, shown_in, way_to

SOURCE, MAP, SINK = (0, 0), (1, 0), (2, 0)
REPORT = SubtaskReport(b"handle", state_bytes=3)


def pending(
    *finished: tuple[int, int], kind: CheckpointKind = CheckpointKind.CHECKPOINT
) -> PendingCheckpoint:
    expected = [subtask for subtask in (SOURCE, MAP, SINK) if subtask not in finished]
    return PendingCheckpoint(7, kind, expected, finished, triggered_at=1.0, timestamp_ms=1000)


def step(checkpoint: PendingCheckpoint, event: CheckpointEvent) -> None:
    match event:
        case CheckpointEvent.ACKNOWLEDGE:
            for subtask in list(checkpoint.missing):
                checkpoint.acknowledge(subtask, REPORT)
        case CheckpointEvent.COMPLETE:
            checkpoint.complete()
        case CheckpointEvent.ABORT:
            checkpoint.abort(CheckpointFailureReason.EXPIRED)


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize("state", CheckpointState)
@pytest.mark.parametrize("event", [CheckpointEvent.COMPLETE, CheckpointEvent.ABORT])
def test_every_row_of_the_table(state: CheckpointState, event: CheckpointEvent) -> None:
    checkpoint = pending()
    for earlier in way_to(state, CheckpointState.PENDING, TRANSITIONS):
        step(checkpoint, earlier)
    assert checkpoint.state is state
    if (state, event) in TRANSITIONS:
        step(checkpoint, event)
        assert checkpoint.state is TRANSITIONS[state, event]
        checkpoint.check_invariants()
    else:
        with pytest.raises(AssertionError, match=event.name):
            step(checkpoint, event)


def test_the_end_is_where_no_row_begins() -> None:
    ended = [state for state in CheckpointState if state.is_terminal]
    assert ended == [CheckpointState.COMPLETED, CheckpointState.ABORTED]


def test_the_last_acknowledgement_completes_what_subtasks_do() -> None:
    checkpoint = pending()
    for subtask in (SOURCE, MAP):
        assert checkpoint.acknowledge(subtask, REPORT)
        assert checkpoint.state is CheckpointState.PENDING
        checkpoint.check_invariants()
    assert not checkpoint.acknowledge(MAP, REPORT), "said twice"
    assert not checkpoint.acknowledge((9, 9), REPORT), "nobody asked it"
    assert checkpoint.acknowledge(SINK, REPORT)
    assert checkpoint.state is CheckpointState.COMPLETING
    assert checkpoint.reports[SOURCE] is REPORT
    assert not checkpoint.acknowledge(SINK, REPORT), "too late"


def test_a_finished_subtask_takes_part() -> None:
    """O2: a checkpoint with finished subtasks."""
    checkpoint = pending(SOURCE)
    checkpoint.acknowledge(MAP, REPORT)
    checkpoint.subtask_finished(MAP)
    assert checkpoint.finished == {SOURCE}, "what it captured stands"
    checkpoint.subtask_finished(SINK)
    assert checkpoint.finished == {SOURCE, SINK}
    assert checkpoint.state is CheckpointState.COMPLETING
    checkpoint.check_invariants()
    checkpoint.subtask_finished(SINK)
    assert checkpoint.finished == {SOURCE, SINK}


@pytest.mark.parametrize("kind", CheckpointKind)
def test_only_what_the_job_takes_for_itself_can_be_subsumed(kind: CheckpointKind) -> None:
    checkpoint = pending(kind=kind)
    assert checkpoint.can_be_subsumed == (kind is CheckpointKind.CHECKPOINT)
    assert checkpoint.stops == (kind.name in ("SAVEPOINT_SUSPEND", "SAVEPOINT_TERMINATE"))


def test_accounts_that_do_not_add_up_are_found() -> None:
    lost = pending()
    lost.missing.discard(MAP)
    twice = pending()
    twice.finished.add(MAP)
    unfinished = pending()
    unfinished.state = CheckpointState.COMPLETING
    stuck = pending(SOURCE, MAP, SINK)
    unexplained = pending()
    unexplained.state = CheckpointState.ABORTED
    for checkpoint in (lost, twice, unfinished, stuck, unexplained):
        with pytest.raises(AssertionError):
            checkpoint.check_invariants()

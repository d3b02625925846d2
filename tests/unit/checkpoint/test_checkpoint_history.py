"""The history of checkpoints: counts, sizes, durations, and the age of the last one."""

from __future__ import annotations

import json

import pytest

from flinknet.checkpoint.checkpoint_history import CheckpointHistory
from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.pending_checkpoint import PendingCheckpoint, SubtaskReport
from flinknet.wire.checkpoint_options import CheckpointKind


def ended(
    number: int, *reports: SubtaskReport, reason: CheckpointFailureReason | None = None
) -> PendingCheckpoint:
    subtasks = [(0, index) for index in range(len(reports))]
    checkpoint = PendingCheckpoint(
        number,
        CheckpointKind.CHECKPOINT,
        [*subtasks, (1, 0)],
        [(2, 0)],
        triggered_at=10.0 * number,
        timestamp_ms=number,
    )
    for subtask, report in zip(subtasks, reports, strict=True):
        checkpoint.acknowledge(subtask, report)
    if reason is not None:
        checkpoint.abort(reason)
    else:
        checkpoint.acknowledge((1, 0), SubtaskReport())
        checkpoint.complete()
    return checkpoint


def test_sizes_add_up_and_the_slowest_subtask_counts() -> None:
    history = CheckpointHistory(3)
    assert history.age_s(5.0) is None
    assert history.to_dict(5.0)["last_completed"] is None
    history.note_trigger()
    one = SubtaskReport(b"where it is", 1.0, 20.0, 3.0, 40.0, 5, 6, 7)
    other = SubtaskReport(b"", 10.0, 2.0, 30.0, 4.0, 50, 60, 70)
    history.note_end(ended(1, one, other), 12.5)
    stats = history.last_completed
    assert stats is not None
    assert stats.metrics == {
        "state_bytes": 55,
        "processed_bytes": 66,
        "persisted_bytes": 77,
        "start_delay_ms": 10.0,
        "alignment_ms": 20.0,
        "sync_ms": 30.0,
        "async_ms": 40.0,
    }
    assert (stats.seconds, stats.subtasks, stats.acknowledged) == (2.5, 4, 4)
    assert stats.reports == {
        (0, 0): one._replace(handle=b""),
        (0, 1): other,
        (1, 0): SubtaskReport(),
    }
    assert stats.finished == {(2, 0)}
    assert history.age_s(15.0) == 5.0, "from its trigger: what would be done again"
    history.check_invariants(under_way=0)


def test_a_failure_is_told_and_leaves_the_last_one_where_it_was() -> None:
    history = CheckpointHistory(3)
    for _ in range(3):
        history.note_trigger()
    history.note_end(ended(1), 11.0)
    history.note_end(ended(2, reason=CheckpointFailureReason.EXPIRED), 25.0, "nobody answered")
    told = history.to_dict(30.0)
    assert json.loads(json.dumps(told)) == told
    assert (told["triggered"], told["completed"], told["failed"], told["in_progress"]) == (
        3,
        1,
        1,
        1,
    )
    assert told["last_completed"]["checkpoint_id"] == 1
    assert told["last_completed"]["age_s"] == 20.0
    failure = told["history"][1]
    assert failure["reason"] == "EXPIRED"
    assert failure["explanation"] == "nobody answered"
    assert failure["acknowledged"] == 1
    assert failure["kind"] == "CHECKPOINT"
    history.check_invariants(under_way=1)
    with pytest.raises(AssertionError):
        history.check_invariants(under_way=0)


def test_why_a_checkpoint_has_failed_is_said_for_people() -> None:
    history = CheckpointHistory(3)
    for _ in range(3):
        history.note_trigger()
    history.note_end(ended(1), 11.0)
    history.note_end(ended(2, reason=CheckpointFailureReason.EXPIRED), 25.0, "nobody answered")
    history.note_end(ended(3, reason=CheckpointFailureReason.EXPIRED), 35.0)
    expired = CheckpointFailureReason.EXPIRED.value
    assert history.why_failed(2) == f"{expired}: nobody answered"
    assert history.why_failed(3) == expired
    assert history.why_failed(1) == "the reason is not remembered", "it is complete"
    assert history.why_failed(4) == "the reason is not remembered"
    assert history.reason_of(3) is CheckpointFailureReason.EXPIRED
    assert history.reason_of(1) is None
    assert history.reason_of(4) is None


def test_the_oldest_story_is_forgotten() -> None:
    history = CheckpointHistory(2)
    for number in (1, 2, 3):
        history.note_trigger()
        history.note_end(ended(number), 100.0)
    assert [stats.checkpoint_id for stats in history.checkpoints] == [2, 3]
    assert history.completed == 3

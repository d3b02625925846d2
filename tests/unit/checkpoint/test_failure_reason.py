"""The checkpoint failures that count against the job."""

from __future__ import annotations

from flinknet.checkpoint.failure_reason import CheckpointFailureReason


def test_failures_without_a_fault_do_not_count() -> None:
    counting = {reason.name for reason in CheckpointFailureReason if reason.counts}
    assert counting == {"EXPIRED", "DECLINED", "ASYNC_FAILURE", "COMPLETION_FAILURE"}


def test_a_full_disk_is_a_failure_that_does_not_count() -> None:
    failures = {reason.name for reason in CheckpointFailureReason if reason.is_failure}
    counting = {reason.name for reason in CheckpointFailureReason if reason.counts}
    assert failures - counting == {"STORAGE_FULL"}


def test_declines_before_and_after_the_run_are_no_failures() -> None:
    """Flink ignores CHECKPOINT_DECLINED_TASK_NOT_READY, and subsumed or suspended checkpoints."""
    harmless = {reason.name for reason in CheckpointFailureReason if not reason.is_failure}
    assert harmless == {"NOT_READY", "SUBSUMED", "ATTEMPT_ENDED"}

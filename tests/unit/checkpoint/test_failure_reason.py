"""Which failures of a checkpoint say something about the job."""

from __future__ import annotations

from flinknet.checkpoint.failure_reason import CheckpointFailureReason


def test_what_nobody_did_wrong_does_not_count() -> None:
    counting = {reason.name for reason in CheckpointFailureReason if reason.counts}
    assert counting == {"EXPIRED", "DECLINED", "ASYNC_FAILURE", "COMPLETION_FAILURE"}


def test_a_full_disk_is_a_failure_that_does_not_count() -> None:
    failures = {reason.name for reason in CheckpointFailureReason if reason.is_failure}
    counting = {reason.name for reason in CheckpointFailureReason if reason.counts}
    assert failures - counting == {"STORAGE_FULL"}

"""A request for a savepoint is in progress until its outcome is known."""

from __future__ import annotations

import pytest

from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.wire.checkpoint_options import CheckpointKind

DIRECTORY = CheckpointDirectory(True, 3, 0)
PLACE = "/saved/job/savepoint-3-attempt-0"
STOPPING = (CheckpointKind.SAVEPOINT_SUSPEND, CheckpointKind.SAVEPOINT_TERMINATE)


def request(kind: CheckpointKind = CheckpointKind.SAVEPOINT) -> SavepointRequest:
    return SavepointRequest("4711", 3, kind, "/saved")


def test_a_written_savepoint_is_done() -> None:
    asked = request()
    assert asked.to_dict() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    asked.written("/saved/job", DIRECTORY)
    assert asked.to_dict() == {"status": {"id": "COMPLETED"}, "operation": {"location": PLACE}}
    asked.job_ended(finished=False, how="killed")
    asked.failed("too late")
    assert asked.failure is None


def test_one_that_has_failed_says_why() -> None:
    asked = request()
    asked.failed("no space left")
    asked.job_ended(finished=True, how="FINISHED")
    cause = asked.to_dict()["operation"]["failure-cause"]
    assert cause["stack-trace"] == "no space left"


@pytest.mark.parametrize("kind", STOPPING)
def test_a_savepoint_that_stops_the_job_is_done_with_the_end_of_the_job(
    kind: CheckpointKind,
) -> None:
    asked = request(kind)
    asked.written("/saved/job", DIRECTORY)
    assert not asked.is_done
    asked.job_ended(finished=True, how="FINISHED")
    assert (asked.is_done, asked.failure, asked.location) == (True, None, PLACE)


@pytest.mark.parametrize("kind", STOPPING)
def test_a_job_that_fails_after_its_savepoint_leaves_that(kind: CheckpointKind) -> None:
    asked = request(kind)
    asked.written("/saved/job", DIRECTORY)
    asked.job_ended(finished=False, how="a worker was killed")
    assert asked.failure is not None
    assert PLACE in asked.failure
    assert "a worker was killed" in asked.failure


def test_a_job_that_ends_before_its_savepoint_has_none() -> None:
    asked = request()
    asked.job_ended(finished=True, how="FINISHED")
    assert (
        asked.failure == "the attempt of the job ended before its savepoint was written: FINISHED"
    )


@pytest.mark.parametrize("kind", [CheckpointKind.SAVEPOINT, CheckpointKind.SAVEPOINT_SUSPEND])
def test_the_next_coordinator_knows_of_it(kind: CheckpointKind) -> None:
    asked = request(kind)
    asked.written("/saved/job", CheckpointDirectory(True, 3, 0))
    again = SavepointRequest.from_journal(asked.to_journal())
    assert again == asked
    again.failed("why")
    assert again.progress == asked.progress or kind.stops

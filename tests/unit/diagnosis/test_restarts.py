"""Failures that follow each other, and those that are over."""

from __future__ import annotations

import pytest

from flinknet.diagnosis.finding import Finding, FindingKind
from flinknet.diagnosis.reading import FailureReading
from flinknet.diagnosis.restarts import restarting
from tests.unit.diagnosis.jobs import Job, pipeline


def failure(ago_s: float, subtask: str = "Map 1 (2/2)", said: str = "it failed") -> FailureReading:
    return FailureReading(ago_s, subtask, "worker-1", said)


def found(*failures: FailureReading) -> Finding | None:
    job = Job(pipeline(1, 2, 1), refresh_s=5.0)
    return restarting(job.topology, job.readings()._replace(failures=failures))


def test_a_job_that_fails_every_few_seconds_restarts_so_often() -> None:
    finding = found(failure(1.0, said="late"), failure(5.0), failure(9.0), failure(13.0))
    assert finding is not None
    assert (finding.kind, finding.severity) == (FindingKind.RESTARTS, 1.0)
    assert finding.sentence == "the job restarts every 4.0 s, 4 times in the last 13 s: late"
    assert finding.evidence == ("late", "it failed")
    assert [task.name for task in finding.culprit.tasks] == ["Map 1 (2/2)"]
    assert (finding.culprit.operator, finding.culprit.worker_ids) == ("Map 1", ("worker-1",))
    assert (finding.lost, finding.lost_s) == ((), 0.0)


@pytest.mark.parametrize(
    "ago_s",
    [(), (1.0,), (1.0, 60.0), (20.0, 25.0, 30.0)],
    ids=["none", "one", "one of late", "over"],
)
def test_failures_that_are_over_or_long_ago_are_no_restarts_every_so_often(
    ago_s: tuple[float, ...],
) -> None:
    assert found(*map(failure, ago_s)) is None


def test_a_lost_coordinator_is_no_subtask_and_no_worker() -> None:
    lost = FailureReading(1.0, "", "", "the coordinator was killed")
    finding = found(lost, lost._replace(ago_s=3.0))
    assert finding is not None
    assert finding.culprit == ("", "", (), (), ())

"""A program's view of a diagnosis."""

from __future__ import annotations

import json

import pytest

from flinknet.diagnosis.diagnosis import diagnose, restarting
from flinknet.diagnosis.finding import Finding, FindingKind
from flinknet.diagnosis.reading import FailureReading
from tests.unit.diagnosis.jobs import Job, pipeline


def test_a_job_of_which_nothing_is_known_is_neither_healthy_nor_not() -> None:
    told = diagnose(pipeline(1, 1), Job(pipeline(1, 1)).readings())
    assert (told.verdict, told.findings, told.seconds) == ("unknown", (), 0.0)
    assert told.sentence == "no worker has reported on the job since it began"


def test_a_job_that_has_run_for_less_than_two_refreshes_is_not_called_healthy() -> None:
    """A wait during the whole of it is not a finding yet."""
    job = Job(pipeline(1, 1), refresh_s=5.0).task(0, waits=0.97, busy=0.03, seconds=5.0)
    job.task(1, busy=1.0, seconds=5.0)
    told = diagnose(job.topology, job.readings())
    assert (told.verdict, told.findings) == ("unknown", ())
    assert told.tasks[0].to_json()["level"] == "HIGH"
    assert told.sentence == (
        "the reports of the workers cover 5 s of the job, but a diagnosis needs 10 s, so that it "
        "ignores short spikes"
    )
    job.task(0, waits=0.97, busy=0.03, seconds=10.0).task(1, busy=1.0, seconds=10.0)
    assert diagnose(job.topology, job.readings()).verdict == "troubled"
    job.task(0, busy=1.0, seconds=10.0)
    assert diagnose(job.topology, job.readings()).verdict == "healthy"


def test_a_job_that_restarts_all_the_time_is_said_to() -> None:
    job = Job(pipeline(1, 1)).task(0, busy=1.0, seconds=1.0)
    failures = tuple(FailureReading(3.0 * n, "", "worker-0", "it failed") for n in (1, 2))
    told = diagnose(job.topology, job.readings()._replace(failures=failures))
    assert (told.verdict, told.sentence) == ("troubled", told.findings[0].sentence)
    assert told.sentence.startswith("the job restarts every 3.0 s")


def test_a_healthy_job_has_no_finding() -> None:
    job = Job(pipeline(1, 1)).task(0, busy=0.9).task(1, busy=0.5)
    told = diagnose(job.topology, job.readings())
    assert (told.verdict, told.findings) == ("healthy", ())
    assert told.sentence == "no task was held up in the last 10 s"


def test_the_json_is_what_the_module_says() -> None:
    job = Job(pipeline(1, 2)).task(0, waits=0.9, busy=0.1)
    job.task(1, 0, busy=1.0).task(1, 1, busy=1.0)
    told = json.loads(json.dumps(diagnose(job.topology, job.readings()).to_json()))
    assert list(told) == [
        "verdict",
        "sentence",
        "seconds",
        "refresh_s",
        "findings",
        "waits",
        "tasks",
    ]
    assert (told["verdict"], told["seconds"], told["refresh_s"]) == ("troubled", 10.0, 1.0)
    (finding,) = told["findings"]
    assert told["sentence"] == finding["sentence"]
    assert finding["kind"] == "SLOW_OPERATOR"
    source = {"vertex": 0, "vertex_id": "0" * 32, "subtask": 0, "name": "Source (1/1)"}
    sinks = [
        {"vertex": 1, "vertex_id": f"{1:032x}", "subtask": index, "name": f"Sink ({index + 1}/2)"}
        for index in range(2)
    ]
    assert finding["culprit"] == {
        "operator": "Sink",
        "vertex_id": f"{1:032x}",
        "tasks": sinks,
        "worker_ids": ["worker-0"],
        "key_groups": [],
    }
    (lost,) = finding["lost"]
    assert lost["task"] == source
    assert lost["is_ongoing"] is True
    assert set(lost["throughput"]) == {
        "records_in_per_s",
        "records_out_per_s",
        "bytes_in_per_s",
        "bytes_out_per_s",
    }
    assert [(wait["waiter"], wait["waited_for"]) for wait in told["waits"]] == [
        (source, sinks[0]),
        (source, sinks[1]),
    ]
    assert [wait["share"] for wait in told["waits"]] == [0.45, 0.45]
    first = told["tasks"][0]
    assert (first["task"], first["level"]) == (source, "HIGH")
    assert (first["busy"], first["backpressured"], first["idle"]) == (0.1, 0.9, 0.0)
    assert {"in_pool", "out_pool", "floating", "exclusive", "meaning", "sentences"} <= set(first)


def test_it_says_what_the_pools_of_each_task_mean() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9).task(1, busy=1.0)
    told = diagnose(job.topology, job.readings())
    assert told.meanings() == {
        (one.task.vertex, one.task.subtask): one.usage.meaning for one in told.tasks
    }
    assert set(told.meanings()) == {(0, 0), (1, 0)}


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

"""``flinknet diagnose``: findings with their evidence, or the message that all is well."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flinknet.cli.diagnose import _lines, _lost
from flinknet.diagnosis.diagnosis import diagnose
from tests.unit.cli.commands import Terminal, run_endless_job
from tests.unit.cluster.running_cluster import running_cluster
from tests.unit.diagnosis.jobs import Job, pipeline


async def test_a_running_job_is_diagnosed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        record = await run_endless_job(cluster)
        printed = await terminal.print("diagnose", "endless")
        assert printed.startswith("endless, RUNNING: ")
        assert len([line for line in printed.splitlines() if "worker-" in line]) >= 4
        told = json.loads(await terminal.print("diagnose", record.job_id, "--json"))
        assert told["job_id"] == record.job_id
        assert len(told["tasks"]) == 4
        cluster.served.coordinator.cancel(record)
        await cluster.served.coordinator.wait_for_end(record, 60.0)


def told(job: Job) -> dict[str, Any]:
    found = diagnose(job.topology, job.readings()).to_json()
    return {"name": "sums", "state": "RUNNING", **found}


def test_a_culprit_is_named_with_the_tasks_that_lost_time_to_it() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9, busy=0.1).task(1, busy=1.0)
    lines = list(_lines(told(job)))
    assert lines[:3] == [
        "sums, RUNNING: troubled",
        "",
        "SLOW_OPERATOR: Sink is the bottleneck: it is slower than its input",
    ]
    assert lines[3].startswith("  - Sink (1/1) was busy 100%")
    assert lines[-1] == "  Source (1/1) lost 9.0 s (90%), and is waiting now"


def test_only_the_first_of_many_tasks_that_lost_time_are_named() -> None:
    job = Job(pipeline(7, 1)).task(1, busy=1.0)
    for index in range(7):
        job.task(0, index, waits=0.4)
    (finding,) = told(job)["findings"]
    said = list(_lost(finding["lost"]))
    assert len(said) == 6
    assert said[0].endswith("lost 4.0 s (40%)")
    assert said[-1] == "  and 2 more tasks lost less"


def test_the_verdict_on_a_young_job_is_not_known_yet() -> None:
    job = Job(pipeline(1, 1), refresh_s=9.0).task(0, busy=1.0).task(1, busy=0.9)
    verdict, why = _lines(told(job))
    assert verdict == "sums, RUNNING: not known yet"
    assert why.startswith(
        "the reports of the workers cover 10 s of the job, but a diagnosis needs 18 s"
    )


def test_a_healthy_job_is_one_sentence() -> None:
    job = Job(pipeline(1, 1)).task(0, busy=1.0).task(1, busy=0.9)
    assert list(_lines(told(job))) == [
        "sums, RUNNING: healthy",
        "no task was held up in the last 10 s",
    ]

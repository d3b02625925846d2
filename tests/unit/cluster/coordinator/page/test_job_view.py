"""A job as the page shows it."""

from __future__ import annotations

import json

from flinknet.cluster.coordinator.page.job_view import diagnosis_view, job_view
from flinknet.cluster.coordinator.rest.flink.job_view import vertex_id
from flinknet.diagnosis.diagnosis import diagnose
from flinknet.diagnosis.history import History
from flinknet.metrics.worker_statistics import WorkerStatistics
from tests.unit.cluster.coordinator.rest.flink.jobs import ms, open_all, submitted
from tests.unit.diagnosis.jobs import Job, pipeline
from tests.unit.metrics.samples import network, subtask, times

SOURCE, SUMS = 0, 1


def history(job_id: str) -> History:
    """Return a history in which the source is backpressured, and one of the summing subtasks is
    busy."""
    kept = History(1.0)
    waits = times(
        accumulated_idle_time_ms=0.0,
        accumulated_busy_time_ms=100.0,
        accumulated_backpressured_time_ms=900.0,
    )
    works = times(
        accumulated_idle_time_ms=250.0,
        accumulated_busy_time_ms=750.0,
        accumulated_backpressured_time_ms=0.0,
    )
    tasks = [
        subtask(0, job_id=job_id, vertex=SOURCE, times=waits),
        subtask(0, job_id=job_id, vertex=SUMS, times=works),
    ]
    kept.take("worker-0", WorkerStatistics.of(network(), tasks, event_loop_lag_ms=0.0), 1.0)
    return kept


def test_vertices_and_edges_tell_what_moves() -> None:
    dispatcher, record = submitted()
    open_all(dispatcher, record, 2.0)
    live = history(record.job_id).tasks(record.job_id, 0)
    told = job_view(record, live, 3.0)
    json.dumps(told)
    assert (told["name"], told["state"], told["attempt"]) == ("sums", "RUNNING", 0)
    assert (told["begun"], told["seconds"], told["is_over"]) == (ms(1.0), 2.0, False)
    source, sums = told["vertices"]
    assert source["id"] == vertex_id(record.submission.shape.vertices[0])
    assert (source["busy"], source["backpressured"]) == (0.1, 0.9)
    assert (sums["busy"], sums["parallelism"], sums["reported"]) == (0.75, 2, 1)
    assert (sums["state"], sums["states"]) == ("RUNNING", {"RUNNING": 2})
    (edge,) = told["edges"]
    assert (edge["source"], edge["target"], edge["name"]) == (SOURCE, SUMS, "HASH")
    assert (edge["records_per_s"], edge["bytes_per_s"]) == (1.0, 1_100.0)
    assert (edge["queued_out"], edge["queued_in"], edge["backlog"]) == (2, 4, 7)


def test_a_job_of_which_nothing_is_reported_is_still() -> None:
    _, record = submitted()
    told = job_view(record, {}, 1.5)
    assert [one["reported"] for one in told["vertices"]] == [0, 0]
    assert told["edges"][0]["bytes_per_s"] == 0
    record.end(2.0)
    assert job_view(record, {}, 9.0)["seconds"] == 1.0


def test_a_diagnosis_is_its_sentence_and_its_findings() -> None:
    job = Job(pipeline(1, 1))
    job.task(0, waits=0.9, queues={0: 8}).task(1, busy=0.95)
    told = diagnosis_view(diagnose(job.topology, job.readings()))
    json.dumps(told)
    assert told["verdict"] == "troubled"
    assert told["findings"][0]["kind"] == "SLOW_OPERATOR"
    assert told["findings"][0]["sentence"] == told["sentence"]

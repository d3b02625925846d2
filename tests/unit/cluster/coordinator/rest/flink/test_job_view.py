"""A job in Flink's formats: overview, details, plan."""

from __future__ import annotations

import re

from flinknet.cluster.coordinator.rest.flink.job_view import (
    end_ms,
    io_metrics_view,
    job_details,
    job_overview,
    job_plan,
    vertex_id,
)
from flinknet.metrics.io_metrics import IOMetrics
from tests.unit.cluster.coordinator.rest.flink.jobs import (
    ms,
    open_all,
    release,
    result,
    submitted,
)

SOURCE, FIRST, SECOND = (0, 0), (1, 0), (1, 1)


def test_the_overview_counts_subtasks_and_tells_times() -> None:
    dispatcher, record = submitted(1.0)
    row = job_overview(record, 1.5)
    assert (row["jid"], row["name"]) == (record.job_id, "sums")
    assert (row["start-time"], row["end-time"], row["duration"]) == (ms(1.0), -1, 500)
    assert (row["state"], row["last-modification"]) == ("RUNNING", ms(1.0))
    assert (row["tasks"]["total"], row["tasks"]["deploying"]) == (3, 3)
    open_all(dispatcher, record, 2.0)
    dispatcher.take_result(record, record.present, SOURCE, result(), 3.0)
    tasks = job_overview(record, 3.0)["tasks"]
    assert {state: count for state, count in tasks.items() if count} == {
        "total": 3,
        "running": 2,
        "finished": 1,
    }
    dispatcher.cancel(record, 4.0)
    release(dispatcher, record, 5.0)
    row = job_overview(record, 9.0)
    assert (row["state"], row["last-modification"]) == ("CANCELED", ms(5.0))
    assert (row["end-time"], row["duration"]) == (ms(5.0), 4000)


def test_details_tell_of_each_vertex() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    for subtask, first, at in ((SOURCE, 1, 3.0), (FIRST, 10, 4.0)):
        dispatcher.take_result(record, record.present, subtask, result(first), at)
    told = job_details(record, 5.0)
    assert (told["state"], told["now"], told["end-time"]) == ("RUNNING", ms(5.0), -1)
    assert told["status-counts"]["FINISHED"] == told["status-counts"]["RUNNING"] == 1
    assert sum(told["status-counts"].values()) == 2
    source, sums = told["vertices"]
    assert (source["status"], source["end-time"], source["duration"]) == ("FINISHED", ms(3.0), 2000)
    assert (sums["status"], sums["end-time"], sums["duration"]) == ("RUNNING", -1, 4000)
    assert (sums["parallelism"], sums["tasks"]["RUNNING"], sums["tasks"]["FINISHED"]) == (2, 1, 1)
    assert (source["metrics"]["read-records-complete"], source["metrics"]["read-records"]) == (
        True,
        1,
    )
    assert (sums["metrics"]["read-records-complete"], sums["metrics"]["read-records"]) == (
        False,
        10,
    )
    assert told["maxParallelism"] == sums["maxParallelism"]
    assert told["plan"] == job_plan(record)


def test_unfinished_subtasks_end_with_the_attempt() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    dispatcher.take_result(record, record.present, FIRST, result(), 3.0)
    assert (end_ms(record, [FIRST]), end_ms(record, [FIRST, SECOND])) == (ms(3.0), -1)
    dispatcher.cancel(record, 4.0)
    release(dispatcher, record, 5.0)
    assert (end_ms(record, [FIRST]), end_ms(record, [FIRST, SECOND])) == (ms(3.0), ms(5.0))


def test_the_plan_has_the_inputs_of_each_vertex() -> None:
    _, record = submitted()
    plan = job_plan(record)
    sums, source = plan["nodes"]
    assert (plan["jid"], plan["name"]) == (record.job_id, "sums")
    assert "inputs" not in source
    assert sums["inputs"] == [
        {
            "num": 0,
            "id": source["id"],
            "ship_strategy": "HASH",
            "exchange": "pipelined_bounded",
        }
    ]
    assert sums["parallelism"] == 2


def test_ids_of_vertices_are_the_same_each_time_and_not_each_others() -> None:
    ids = [
        [vertex_id(vertex) for vertex in submitted()[1].submission.shape.vertices] for _ in range(2)
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids[0])


def test_counters_have_flinks_names() -> None:
    assert io_metrics_view(IOMetrics(1, 2, 3, 4, 5, 6, 7), is_complete=True) == {
        "read-records": 1,
        "write-records": 2,
        "read-bytes": 3,
        "write-bytes": 4,
        "read-records-complete": True,
        "write-records-complete": True,
        "read-bytes-complete": True,
        "write-bytes-complete": True,
        "accumulated-idle-time": 5,
        "accumulated-busy-time": 6.0,
        "accumulated-backpressured-time": 7,
    }

"""The subtasks of a vertex as the page shows them."""

from __future__ import annotations

import json

from flinknet.cluster.coordinator.page.vertex_view import COLUMNS, vertex_view
from flinknet.diagnosis.pool_usage import PoolMeaning
from flinknet.metrics.io_metrics import IOMetrics
from tests.unit.cluster.coordinator.page.test_job_view import SUMS, history
from tests.unit.cluster.coordinator.rest.flink.jobs import open_all, submitted


def test_each_subtask_is_a_row() -> None:
    dispatcher, record = submitted()
    open_all(dispatcher, record, 2.0)
    record.present.counters[SUMS, 0] = IOMetrics(10, 20, 30, 40, 0, 0, 0)
    live = history(record.job_id).tasks(record.job_id, 0)
    sums = record.submission.shape.vertices[SUMS]
    meanings = {(SUMS, 0): PoolMeaning.BOTTLENECK}
    told = vertex_view(record, sums, live, meanings, ["numRecordsIn"])
    json.dumps(told)
    assert (told["parallelism"], told["number"], told["columns"]) == (2, SUMS, COLUMNS)
    reported, silent = (dict(zip(COLUMNS, row, strict=True)) for row in told["rows"])
    assert (reported["subtask"], reported["worker"], reported["state"]) == (
        0,
        "worker-0",
        "RUNNING",
    )
    assert (reported["records_in"], reported["bytes_out"]) == (10, 40)
    assert (reported["busy"], reported["level"], reported["backlog"]) == (0.75, "OK", 7)
    assert reported["meaning"] == "BOTTLENECK"
    assert (silent["records_in"], silent["busy"], silent["meaning"]) == (None, None, None)
    [plotted] = told["metrics"]
    aggregates = {"min": 1, "max": 1, "avg": 1, "sum": 1}
    meaning = {"adds": "sum", "unit": "records", "help": "Records read"}
    assert plotted == {"id": "numRecordsIn", **aggregates, "total": 1, **meaning}
    assert "busyTimeMsPerSecond" in told["metric_names"]
    assert told["latency"] == []


def test_without_reports_there_are_no_metrics() -> None:
    _, record = submitted()
    told = vertex_view(record, record.submission.shape.vertices[0], {}, {}, ["numRecordsIn"])
    assert (told["metric_names"], told["metrics"], len(told["rows"])) == ([], [], 1)

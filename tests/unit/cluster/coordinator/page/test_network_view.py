"""Pools, connections and channels as the page shows them."""

from __future__ import annotations

import json

from flinknet.cluster.coordinator.page.network_view import network_view
from flinknet.diagnosis.history import History
from flinknet.metrics.busiest_channels import ChannelRow
from tests.unit.diagnosis.jobs import pipeline
from tests.unit.metrics.samples import channel, worker


def test_everything_stands_in_the_columns_that_are_named() -> None:
    report = worker(subtasks=2, connections=1)
    history = History(1.0)
    history.take("worker-0", report, 1.0)
    live = history.tasks("0815", 0)
    rows = {"worker-0": (ChannelRow("gate", channel(3, backlog=9), 700, 12.5),), "worker-1": ()}
    told = network_view(pipeline(1, 2, 1), live, {"worker-0": report}, rows)
    json.dumps(told)
    [pool] = told["pools"]
    assert (pool["worker"], pool["total"], pool["free"], pool["loop_lag_ms"]) == (
        "worker-0",
        100,
        60,
        1.5,
    )
    found = {}
    for what in ("connections", "gates", "partitions", "channels"):
        columns, first = told[what]["columns"], told[what]["rows"][0]
        found[what] = dict(zip(columns, first, strict=True))
    assert (found["connections"]["peer"], found["connections"]["credit"]) == ("worker 0", 5)
    assert (found["gates"]["task"], found["gates"]["backlog"]) == ("Map 1 (1/2)", 7)
    assert (found["partitions"]["longest_queue"], found["partitions"]["in_use"]) == (2, 4)
    assert (found["channels"]["channel"], found["channels"]["backlog"]) == (3, 9)
    assert found["channels"]["buffered_bytes"] == 700
    assert found["channels"]["time_to_consume"] == 12.5
    assert (found["gates"]["buffered_bytes"], found["gates"]["time_to_consume"]) == (1_000, None)


def test_a_partition_that_holds_nothing_has_no_longest_queue() -> None:
    report = worker()
    [task] = report.subtasks
    [partition] = task.partitions
    idle = task._replace(partitions=(partition._replace(longest_queues=()),))
    history = History(1.0)
    history.take("worker-0", report._replace(subtasks=(idle,)), 1.0)
    told = network_view(pipeline(1, 2, 1), history.tasks("0815", 0), {}, {})
    [row] = told["partitions"]["rows"]
    assert row[-1] == 0

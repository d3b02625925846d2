"""Metrics by Flink's names: lists, values, aggregates."""

from __future__ import annotations

import pytest

from flinknet.cluster.coordinator.rest.flink.metrics_view import (
    aggregated_metrics,
    chosen_names,
    metric_list,
    subtask_values,
    watermark_list,
)
from flinknet.errors import ConfigurationError
from flinknet.metrics.operator_totals import OperatorTotals
from tests.unit.cluster.coordinator.rest.flink.reports import reported
from tests.unit.metrics.samples import subtask

TASKS = [reported(index, records_in=10 * index) for index in range(4)]
NAME = "numRecordsIn"


def test_names_are_listed_and_values_are_texts() -> None:
    values = {"b": 2, "a": 1.5, "c": True}
    assert metric_list(values, None) == [{"id": "a"}, {"id": "b"}, {"id": "c"}]
    assert metric_list(values, chosen_names("c,b,,none")) == [
        {"id": "c", "value": "true"},
        {"id": "b", "value": "2"},
    ]
    assert chosen_names(None) is None


def test_metrics_of_a_vertex_begin_with_the_subtask() -> None:
    values = subtask_values(TASKS)
    assert [values[f"{index}.{NAME}"] for index in range(4)] == [0, 10, 20, 30]
    assert values["0.numRecordsInPerSecond"] == 0.5


def test_metrics_of_an_operator_have_its_name_before_them() -> None:
    task = subtask(2, operators=(OperatorTotals("Map", "map", 10, 20),))
    assert subtask_values([task])["2.Map.numRecordsOut"] == 20
    [found] = aggregated_metrics([task, task], ["Map.numRecordsIn"], ["sum"])
    assert found == {"id": "Map.numRecordsIn", "sum": 20.0}


def test_subtasks_with_event_time_have_its_metrics() -> None:
    assert watermark_list(TASKS) == []
    tasks = [subtask(0, input_watermark=-(1 << 63)), subtask(1, input_watermark=7)]
    assert watermark_list(tasks) == [
        {"id": "0.currentInputWatermark", "value": "-9223372036854775808"},
        {"id": "1.currentInputWatermark", "value": "7"},
    ]


def test_numbers_are_aggregated_over_the_subtasks_that_are_asked_for() -> None:
    assert {"id": NAME} in aggregated_metrics(TASKS, None)
    assert aggregated_metrics(TASKS, [NAME, "none"]) == [
        {"id": NAME, "min": 0.0, "max": 30.0, "avg": 15.0, "sum": 60.0}
    ]
    assert aggregated_metrics(TASKS, [NAME], ["max"], "0-1,2") == [{"id": NAME, "max": 20.0}]
    assert aggregated_metrics([], [NAME]) == []


@pytest.mark.parametrize(
    ("aggregates", "subtasks", "why"), [(["mode"], None, "agg is"), (None, "x", "subtasks is")]
)
def test_invalid_parameters_are_refused(
    aggregates: list[str] | None, subtasks: str | None, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        aggregated_metrics(TASKS, [NAME], aggregates, subtasks)

"""Flink's names of operators: below the task's, with labels of their own."""

from __future__ import annotations

from flinknet.metrics.families import Family
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.operator_families import operator_families, operator_values
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.task_families import task_labels
from tests.unit.metrics.samples import subtask

MAP = OperatorTotals("Map", "map", 10, 20, 1_000, 900, None, 1.5, 2.5)
WINDOW = OperatorTotals("Window: sum, 1.5 s", "window", 20, 3, 900, None, 4)
TASK = subtask(operators=(MAP, WINDOW))
SCOPE = "flink_taskmanager_job_task_operator_"


def exported() -> dict[str, Family]:
    labels = task_labels({"tm_id": "worker-0"}, TASK)
    return {
        family.name.removeprefix(SCOPE): family for family in operator_families([(labels, TASK)])
    }


def test_flinks_names_have_their_values() -> None:
    values = {name: [value for _, value in family.samples] for name, family in exported().items()}
    assert values == {
        "numRecordsIn": [10, 20],
        "numRecordsInPerSecond": [1.5, 0.0],
        "numRecordsOut": [20, 3],
        "numRecordsOutPerSecond": [2.5, 0.0],
        "currentInputWatermark": [1_000, 900],
        "currentOutputWatermark": [900],
        "numLateRecordsDropped": [4],
    }


def test_an_operator_has_the_labels_of_its_subtask_and_its_own() -> None:
    labels, _ = exported()["numRecordsIn"].samples[1]
    assert labels["operator_name"] == "Window: sum, 1.5 s"
    assert labels["operator_id"] == hex_id("window")
    assert (labels["tm_id"], labels["task_name"], labels["subtask_index"]) == (
        "worker-0",
        "Map",
        "0",
    )


def test_flinks_rest_has_them_behind_the_name_of_the_operator() -> None:
    values = operator_values(TASK)
    assert values["Map.numRecordsOutPerSecond"] == 2.5
    assert values["Window__sum__1_5_s.numLateRecordsDropped"] == 4
    assert "Map.numLateRecordsDropped" not in values

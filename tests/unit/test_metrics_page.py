"""A metric is defined in one line, from which Prometheus, Flink's REST and the documentation get
it."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.cluster.coordinator.metrics import coordinator_catalogue
from flinknet.cluster.coordinator.rest.flink.metrics_view import aggregated_metrics
from flinknet.metrics.catalogue import WORKER_CATALOGUES, worker_families
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.registry import Adding, Catalogue, Metric, Unit
from flinknet.metrics.task_catalogue import GATE, OPERATOR, TASK
from tests.metrics_page import PAGE, page
from tests.unit.metrics.samples import subtask, worker


def add(monkeypatch: pytest.MonkeyPatch, catalogue: Catalogue[Any], metric: Metric[Any]) -> None:
    monkeypatch.setattr(catalogue, "metrics", (*catalogue.metrics, metric))


def test_the_page_is_made_of_the_catalogues() -> None:
    """Otherwise run ``python -m tests.metrics_page``."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_a_metric_of_a_subtask_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    name, exported = "Shuffle.Netty.Input.backlog", "Shuffle_Netty_Input_backlog"
    metric = Metric[Any](name, Unit.BUFFERS, "backlog", "Buffers at producers", over="gates")
    add(monkeypatch, TASK, metric)
    families = {one.name: one for one in worker_families({}, worker(subtasks=2))}
    added = families[f"flink_taskmanager_job_task_{exported}"]
    assert added.help == "Buffers at producers (scope: taskmanager_job_task)"
    assert [value for _, value in added.samples] == [7, 7]
    [told] = aggregated_metrics([subtask(0), subtask(1)], [name], ["sum"])
    assert told == {"id": name, "sum": 14.0}
    names = f"| `flink_taskmanager_job_task_{exported}` | `{name}` |"
    assert f"{names} gauge | buffers | sum | gates | Buffers at producers |" in page()


def test_a_metric_of_an_operator_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, OPERATOR, Metric("kept", Unit.SHARE, kept, "Kept", adds=Adding.MEAN))
    task = subtask(operators=(OperatorTotals("Map", "map", 10, 5),))
    names = {one.name for one in worker_families({}, worker()._replace(subtasks=(task,)))}
    assert "flink_taskmanager_job_task_operator_kept" in names
    assert aggregated_metrics([task], ["Map.kept"], ["max"]) == [{"id": "Map.kept", "max": 0.5}]
    assert "| `flink_taskmanager_job_task_operator_kept` | `OPERATOR.kept` |" in page()


def kept(operator: OperatorTotals) -> float:
    return operator.records_out / operator.records_in


def test_a_metric_of_flinknets_own_is_one_line_and_not_in_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "flinknet_gate_queued_bytes"
    add(monkeypatch, GATE, Metric(name, Unit.BYTES, "queued_bytes", "Bytes not read yet"))
    families = {one.name: one for one in worker_families({}, worker())}
    assert [value for _, value in families[name].samples] == [300]
    assert {"id": name} not in aggregated_metrics([subtask()], None)
    assert f"| `{name}` |  | gauge | bytes | sum |  | Bytes not read yet |" in page()


def test_no_two_metrics_have_one_name() -> None:
    catalogues = (*WORKER_CATALOGUES, *coordinator_catalogue.COORDINATOR_CATALOGUES)
    names = [(one.scope, metric.name) for one in catalogues for metric in one.metrics]
    assert len(names) == len(set(names))

"""The reference page of all metrics, generated from their catalogues.

    python -m tests.metrics_page

writes ``docs/reference/metrics.md``. A test compares the page with the catalogues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinknet.cluster.coordinator.metrics.coordinator_catalogue import COORDINATOR_CATALOGUES
from flinknet.metrics.build_info import BUILD, BUILD_LABELS
from flinknet.metrics.catalogue import WORKER_CATALOGUES
from flinknet.metrics.registry import Catalogue, Kind, Metric, prometheus_name
from flinknet.metrics.worker_catalogue import COORDINATOR_PROCESS_SCOPE, PROCESS, TOPIC

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"

_HEAD = """\
# Metrics

This page lists all metrics. It is generated from the catalogues in the code. The coordinator and
the workers export the metrics at `/metrics` for Prometheus, and most of them are also in Flink's
REST API. Metrics with Flink's names are exported as by Flink's Prometheus reporter: the scope comes
first, dots become underscores, and counters are gauges. Names that begin with `flinknet_` are
flinknet's own. A word in capitals stands for a part of a name that depends on the object.

- *type*: a counter only grows, and begins at 0 with its process, subtask or job.
- *adds up*: how to combine the numbers of several objects. flinknet does so over the gates of a
  subtask, the subtasks of an operator and the ends of an exchange; do the same in a query of your
  own. The *share* of several objects is the share of all their buffers together.
- *over*: the parts of each object that are read, and added up in the same way.

In REST, a summary has one name for each statistic, such as `latency_mean`. `STATISTIC` stands for
`min`, `max`, `mean`, `stddev`, `median`, `p75`, `p90`, `p95`, `p98`, `p99` and `p999`. In
Prometheus, it has a sample for each quantile, and a further metric `_count`.

`GET /metrics/targets` of the coordinator lists the addresses to scrape, and `flinknet metrics JOB`
prints the values of a job. Each process also exports the `process_*` metrics of Prometheus' client
library. `python -m tests.metrics_page` writes this page.
"""

_HOST = ("host",)
_EMBEDDED = (TOPIC,)
_PROCESSES: tuple[tuple[str, Sequence[Catalogue[Any]]], ...] = (
    ("Workers", [one for one in WORKER_CATALOGUES if one not in _EMBEDDED]),
    ("Environments of a program, besides", _EMBEDDED),
    (
        "The coordinator",
        (
            *COORDINATOR_CATALOGUES,
            replace(PROCESS, scope=COORDINATOR_PROCESS_SCOPE, labels=_HOST),
            replace(BUILD, labels=(*_HOST, *BUILD_LABELS)),
        ),
    ),
)


def page() -> str:
    """Return the text of the page."""
    lines = [_HEAD]
    for process, catalogues in _PROCESSES:
        lines += [f"## {process}", ""]
        for catalogue in catalogues:
            lines += [*_section(catalogue), ""]
    return "\n".join(lines)


def _section(catalogue: Catalogue[Any]) -> Iterator[str]:
    yield f"### {catalogue.title}"
    yield ""
    yield f"Labels: {', '.join(f'`{label}`' for label in catalogue.labels)}."
    if catalogue.scope:
        yield f"Scope of Flink's names: `{catalogue.scope}`."
    if catalogue.rest:
        yield f"In Flink's REST: `GET {catalogue.rest}`."
    yield ""
    yield "| Prometheus | Flink's REST | type | unit | adds up | over | |"
    yield "|---|---|---|---|---|---|---|"
    yield from (_row(catalogue, metric) for metric in catalogue.metrics)


def _row(catalogue: Catalogue[Any], metric: Metric[Any]) -> str:
    in_rest = catalogue.rest and not metric.is_own
    cells = (
        f"`{prometheus_name(metric, catalogue.scope)}`",
        f"`{catalogue.rest_prefix}{_name_in_rest(metric)}`" if in_rest else "",
        metric.kind.value,
        metric.unit.value,
        "" if metric.kind is Kind.SUMMARY else metric.adds.value,
        metric.over,
        metric.help,
    )
    return f"| {' | '.join(cells)} |"


def _name_in_rest(metric: Metric[Any]) -> str:
    return f"{metric.name}_STATISTIC" if metric.kind is Kind.SUMMARY else metric.name


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

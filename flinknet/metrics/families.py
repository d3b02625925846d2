"""Metric families: what is exported under one name, before anybody makes text of it.

Names and labels are decided without the library that writes them (``exporter.py``), so that worker,
coordinator and collector say what they have in one form. A name of Flink's is a gauge whatever it
counts, as Flink's Prometheus reporter exports it; one of flinknet's own follows Prometheus'
conventions, so that a counter ends with ``_total``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Family", "Kind", "Labels", "Metric", "families_of"]

T = TypeVar("T")

Labels = dict[str, str]


class Kind(Enum):
    """What Prometheus knows of a family."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    """Quantiles, and how many there are in all."""


class Family(NamedTuple):
    """All samples of one name."""

    name: str
    help: str
    kind: Kind
    samples: Sequence[tuple[Labels, float]]
    counts: Sequence[tuple[Labels, float]] = ()
    """Of a summary: how many, without the label of the quantile."""


class Metric(NamedTuple, Generic[T]):
    """How a family's values are read from what they describe; None is no sample."""

    name: str
    help: str
    value: Callable[[T], float | None]

    @property
    def kind(self) -> Kind:
        """By its name: counters of Flink's have no suffix, and are gauges."""
        return Kind.COUNTER if self.name.endswith("_total") else Kind.GAUGE


def families_of(
    metrics: Iterable[Metric[T]], described: Sequence[tuple[Labels, T]]
) -> Iterator[Family]:
    """A family for each metric, with a sample of everything that has one."""
    for metric in metrics:
        values = [(labels, metric.value(one)) for labels, one in described]
        samples = [(labels, value) for labels, value in values if value is not None]
        if samples:
            yield Family(metric.name, metric.help, metric.kind, samples)

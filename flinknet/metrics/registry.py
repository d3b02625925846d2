"""Metrics as values, in catalogues: one definition shared by all readers.

A ``Metric`` defines a name, a unit and a type, how its number is read from existing totals of a
worker or the coordinator, how numbers are aggregated, and a description. A ``Catalogue`` holds the
metrics of one kind of object, such as subtasks, input gates or jobs. Prometheus' families, the
answers of Flink's REST API, sums for the web page and the diagnosis, and the reference
(``docs/reference/metrics.md``) are all made from catalogues. A metric of an existing number is
therefore one line in a catalogue.

A metric of flinknet's own has its full name, such as ``flinknet_gate_backlog``, by Prometheus'
conventions; Flink's REST API omits it. Any other metric has the name from Flink's REST API, such as
``Shuffle.Netty.Input.numBytesInLocal``. Prometheus receives it as Flink's reporter writes it: with
underscores, after the scope of the catalogue, and as a gauge even for counters. Names and labels
are determined here, without the library that writes them (``exporter.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain
from operator import attrgetter
from statistics import fmean
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = [
    "Adding",
    "Catalogue",
    "Family",
    "Kind",
    "Labels",
    "Metric",
    "Unit",
    "family_of",
    "prometheus_name",
]

T = TypeVar("T")

Labels = dict[str, str]

_OWN = "flinknet_"
"""Prefix of the names of flinknet's own metrics; all others are Flink's."""


class Kind(Enum):
    """The type of a metric, in Prometheus' terms."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    """Quantiles of a histogram, and its total number of values."""


class Family(NamedTuple):
    """All samples exported under one name, before they become text."""

    name: str
    help: str
    kind: Kind
    samples: Sequence[tuple[Labels, float]]
    counts: Sequence[tuple[Labels, float]] = ()
    """Number of values of a summary, without the label of the quantile."""


class Unit(Enum):
    """The unit of a number."""

    RECORDS = "records"
    RECORDS_PER_SECOND = "records/s"
    BUFFERS = "buffers"
    BUFFERS_PER_SECOND = "buffers/s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    MILLISECONDS = "ms"
    MS_PER_SECOND = "ms/s"
    SECONDS = "s"
    NANOSECONDS = "ns"
    EVENT_TIME = "ms of event time"
    WALL_CLOCK = "ms since 1970"
    SHARE = "part of 1"
    PERCENT = "%"
    YES_NO = "0 or 1"
    NUMBER = ""
    """A number of the items in the metric's name, or an identifier."""

    @property
    def per_second(self) -> Unit:
        """The unit of a rate of this; ValueError if no metric has it."""
        return Unit(f"{self.value}/s")


class Adding(Enum):
    """Aggregation of the numbers of several parts; None is no number."""

    SUM = "sum"
    """Sum; 0 without any parts."""
    MAX = "max"
    """None without any number."""
    MIN = "min"
    """None without any number."""
    MEAN = "mean"
    """None without any number."""
    SHARE = "share"
    """Sum of the used amounts divided by the sum of the totals; 0 if that is 0.

    Each part provides a pair of both.
    """

    def of(self, numbers: Iterable[Any]) -> float | None:
        """Aggregate the numbers."""
        return _ADDED[self](numbers)


def _sum(numbers: Iterable[float | None]) -> float:
    return sum(filter(None, numbers))


def _known(numbers: Iterable[float | None]) -> list[float]:
    return [number for number in numbers if number is not None]


def _mean(numbers: Iterable[float | None]) -> float | None:
    known = _known(numbers)
    return fmean(known) if known else None


def _share(pairs: Iterable[tuple[float, float]]) -> float:
    used = whole = 0.0
    for part_used, part_whole in pairs:
        used += part_used
        whole += part_whole
    return used / whole if whole else 0.0


_ADDED: dict[Adding, Callable[[Iterable[Any]], float | None]] = {
    Adding.SUM: _sum,
    Adding.MAX: lambda numbers: max(_known(numbers), default=None),
    Adding.MIN: lambda numbers: min(_known(numbers), default=None),
    Adding.MEAN: _mean,
    Adding.SHARE: _share,
}


@dataclass(frozen=True)
class Metric(Generic[T]):
    """A number that every object of a catalogue has."""

    name: str
    """Flink's name in its REST API, with dots, or flinknet's own, with ``flinknet_``."""
    unit: Unit
    read: str | Callable[[Any], Any]
    """An attribute path, or a function, that reads the object or each of its parts."""
    help: str
    kind: Kind = Kind.GAUGE
    adds: Adding = Adding.SUM
    """Aggregation over the parts of an object and over several objects."""
    over: str = ""
    """Attribute that holds the parts to read; empty to read the object itself."""

    @property
    def is_own(self) -> bool:
        """Whether the metric is flinknet's own, not Flink's."""
        return self.name.startswith(_OWN)

    @cached_property
    def value(self) -> Callable[[T], float | None]:
        """Function that returns the number of one object, or None."""
        # Cached, because a scrape calls it for every subtask.
        read = self.reader
        if not self.over:
            return read
        parts, add = attrgetter(self.over), _ADDED[self.adds]
        return lambda one: add(map(read, parts(one)))

    def total(self, objects: Iterable[T]) -> float | None:
        """Aggregate the numbers of several objects."""
        parts: Iterable[Any] = objects
        if self.over:
            parts = chain.from_iterable(map(attrgetter(self.over), objects))
        return self.adds.of(map(self.reader, parts))

    @cached_property
    def reader(self) -> Callable[[Any], Any]:
        """Function that reads the object, or one of its parts."""
        return attrgetter(self.read) if isinstance(self.read, str) else self.read


@dataclass
class Catalogue(Generic[T]):
    """The metrics of one kind of object."""

    title: str
    """Name of the objects in the documentation."""
    metrics: Sequence[Metric[T]]
    scope: str = ""
    """Scope of the metrics with Flink's names, such as ``taskmanager_job_task``."""
    labels: tuple[str, ...] = ()
    """Names of the labels that identify an object."""
    rest: str = ""
    """Path in Flink's REST API that returns these metrics; empty if there is none."""
    rest_prefix: str = ""
    """Prefix of the names in the REST API.

    A word in capitals, here and in the scope, stands for a part that depends on the object.
    """

    def __getitem__(self, name: str) -> Metric[T]:
        """Return the metric with this name; KeyError if there is none."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(name)

    def families(
        self,
        described: Sequence[tuple[Labels, T]],
        scope: str | None = None,
        *,
        even_empty: bool = False,
    ) -> Iterator[Family]:
        """Make a family of each metric, with a sample of each object that has a number.

        ``scope`` replaces the catalogue's. Families without samples are omitted, unless
        ``even_empty`` is true.
        """
        scope = self.scope if scope is None else scope
        for metric in self.metrics:
            read = metric.value
            samples = [
                (labels, value) for labels, one in described if (value := read(one)) is not None
            ]
            if samples or even_empty:
                yield family_of(metric, scope, samples)

    def values(self, one: T) -> dict[str, float]:
        """Return the numbers of one object by their names in Flink's REST API."""
        return {
            metric.name: value
            for metric in self.metrics
            if not metric.is_own and (value := metric.value(one)) is not None
        }


def prometheus_name(metric: Metric[Any], scope: str) -> str:
    """Return the name in Prometheus, as Flink's reporter writes it in this scope."""
    return metric.name if metric.is_own else f"flink_{scope}_{metric.name.replace('.', '_')}"


def family_of(
    metric: Metric[Any],
    scope: str,
    samples: Sequence[tuple[Labels, float]],
    counts: Sequence[tuple[Labels, float]] = (),
) -> Family:
    """Make the family of a metric in one of Flink's scopes."""
    kind, described = metric.kind, metric.help
    if not metric.is_own:
        described = f"{described} (scope: {scope})"
        # Flink's reporter exports counters as gauges, and dashboards made for it expect that.
        kind = Kind.GAUGE if kind is Kind.COUNTER else kind
    return Family(prometheus_name(metric, scope), described, kind, samples, counts)

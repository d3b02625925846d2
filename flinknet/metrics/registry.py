"""A metric as a value, and catalogues of metrics: the one definition that every reader shares.

Theory of operation. A ``Metric`` says its name, its unit and type, how its number is read from
totals that a worker or the coordinator has already, how numbers add up, and what it means. A
``Catalogue`` has the metrics of one kind of object: of a subtask, of an input gate, of a job.
Prometheus' families, the answers of Flink's REST, sums for the page and the diagnosis, and the page
of the documentation (``docs/reference/metrics.md``) are all made from catalogues. So a metric of
numbers that are carried already is one line in a catalogue.

A metric of flinknet's own has its whole name, ``flinknet_gate_backlog``, which follows Prometheus'
conventions; REST, which is Flink's, leaves it out. Names and labels are decided without the library
that writes them (``exporter.py``). Any other metric has the name that Flink's REST
has, ``Shuffle.Netty.Input.numBytesInLocal``. Prometheus gets it as Flink's reporter writes it: with
underscores, behind the scope of the catalogue, and as a gauge even if it counts.
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
"""How the names of flinknet's own metrics begin; all others are Flink's."""


class Kind(Enum):
    """The type of a metric, in Prometheus' words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    """Quantiles of a histogram, and how many values it has in all."""


class Family(NamedTuple):
    """All samples that are exported under one name, before they become text."""

    name: str
    help: str
    kind: Kind
    samples: Sequence[tuple[Labels, float]]
    counts: Sequence[tuple[Labels, float]] = ()
    """Of a summary: how many, without the label of the quantile."""


class Unit(Enum):
    """What a number counts or measures."""

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
    """A number of the things that the name says, or an identifier."""

    @property
    def per_second(self) -> Unit:
        """Return the unit of a rate; ValueError if no metric has that."""
        return Unit(f"{self.value}/s")


class Adding(Enum):
    """How the numbers of several parts become the number of all of them; None is no number."""

    SUM = "sum"
    """0 without any part."""
    MAX = "max"
    """None without any number."""
    MIN = "min"
    """None without any number."""
    MEAN = "mean"
    """None without any number."""
    SHARE = "share"
    """Each part reads how much it uses, and of how much: the sum of the first by the sum of the
    second, 0 if that is 0."""

    def of(self, numbers: Iterable[Any]) -> float | None:
        """Add up."""
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
    """One number of every object that its catalogue describes."""

    name: str
    """Flink's in REST, with dots; or flinknet's own, which begins with ``flinknet_``."""
    unit: Unit
    read: str | Callable[[Any], Any]
    """The path of an attribute, or a function. It reads the object, or each of its parts."""
    help: str
    kind: Kind = Kind.GAUGE
    adds: Adding = Adding.SUM
    """How the numbers of several parts, and of several objects, add up."""
    over: str = ""
    """The attribute with the parts of the object that are read; empty if the object is read."""

    @property
    def is_own(self) -> bool:
        """Whether it is flinknet's, and not one of Flink's."""
        return self.name.startswith(_OWN)

    @cached_property
    def value(self) -> Callable[[T], float | None]:
        """Return the number of one object; None if it has none."""
        # Made once: a scrape calls it for every subtask.
        read = self.reader
        if not self.over:
            return read
        parts, add = attrgetter(self.over), _ADDED[self.adds]
        return lambda one: add(map(read, parts(one)))

    def total(self, objects: Iterable[T]) -> float | None:
        """Add up the numbers of several objects."""
        parts: Iterable[Any] = objects
        if self.over:
            parts = chain.from_iterable(map(attrgetter(self.over), objects))
        return self.adds.of(map(self.reader, parts))

    @cached_property
    def reader(self) -> Callable[[Any], Any]:
        """Read the object, or one of its parts."""
        return attrgetter(self.read) if isinstance(self.read, str) else self.read


@dataclass
class Catalogue(Generic[T]):
    """The metrics of one kind of object."""

    title: str
    """The objects, as the documentation calls them."""
    metrics: Sequence[Metric[T]]
    scope: str = ""
    """Flink's, of the metrics that have its names: ``taskmanager_job_task``."""
    labels: tuple[str, ...] = ()
    """Names of the labels that tell the objects apart."""
    rest: str = ""
    """The path in Flink's REST that answers with these metrics; empty if none does."""
    rest_prefix: str = ""
    """The beginning of their names there, if they do not stand alone. A word in capitals in this
    prefix and in the scope stands for a part that is the object's."""

    def __getitem__(self, name: str) -> Metric[T]:
        """Return the metric of this name; KeyError if there is none."""
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

        ``scope`` takes the place of the catalogue's. Families without samples are left out, unless
        ``even_empty`` asks for them.
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
        """Return the numbers of one object by the names that Flink's REST has."""
        return {
            metric.name: value
            for metric in self.metrics
            if not metric.is_own and (value := metric.value(one)) is not None
        }


def prometheus_name(metric: Metric[Any], scope: str) -> str:
    """Return the name that Prometheus has, as Flink's reporter writes it in this scope."""
    return metric.name if metric.is_own else f"flink_{scope}_{metric.name.replace('.', '_')}"


def family_of(
    metric: Metric[Any],
    scope: str,
    samples: Sequence[tuple[Labels, float]],
    counts: Sequence[tuple[Labels, float]] = (),
) -> Family:
    """Make the family of a metric in a scope of Flink's."""
    kind, described = metric.kind, metric.help
    if not metric.is_own:
        described = f"{described} (scope: {scope})"
        kind = Kind.GAUGE if kind is Kind.COUNTER else kind
    return Family(prometheus_name(metric, scope), described, kind, samples, counts)

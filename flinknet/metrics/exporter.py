"""Prometheus' side of metrics: the only module that knows its library.

``render`` makes text of families for whoever serves ``/metrics``; ``FlinknetCollector`` is for a
program that embeds a network environment and has a registry of its own. Both read at the moment of
a scrape; between scrapes nothing happens here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from time import perf_counter
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, Metric, ProcessCollector, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from flinknet.errors import LocalProtocolError
from flinknet.metrics.build_info import build_info
from flinknet.metrics.environment_statistics import EnvironmentStatistics
from flinknet.metrics.families import Family, Kind, Labels
from flinknet.metrics.network_families import exchange_families, network_families, worker_labels
from flinknet.metrics.topic_families import topic_families
from flinknet.metrics.worker_statistics import ConnectionTotals, GateTotals, PartitionTotals

__all__ = ["CONTENT_TYPE", "FlinknetCollector", "render"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""What a scraper is told of the text."""

_PROCESS = ProcessCollector(registry=None)

TURN_S = 0.001
"""For how long text is made before the event loop has a turn."""


async def render(families: Iterable[Family]) -> AsyncIterator[bytes]:
    """The text of families and of this process's own metrics, for ``/metrics``, piece by piece.

    The event loop turns after every ``TURN_S``, with what was made until then: to put megabytes
    together, and to hand them to a socket, takes longer than that.
    """
    labels_text = _LabelsText()
    parts: list[str] = []
    turn_began = perf_counter()
    for family in families:
        parts.append(_head(family))
        for name, labels, value in _samples(family):
            parts.append(f"{name}{labels_text.of(labels)} {_number(value)}\n")
            if perf_counter() - turn_began >= TURN_S:
                yield "".join(parts).encode()
                parts.clear()
                await asyncio.sleep(0)
                turn_began = perf_counter()
    yield "".join(parts).encode() + generate_latest(_PROCESS)


def _head(family: Family) -> str:
    return f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind.value}\n"


def _samples(family: Family) -> Iterator[tuple[str, Labels, float]]:
    for labels, value in family.samples:
        yield family.name, labels, value
    for labels, value in family.counts:
        yield f"{family.name}_count", labels, value


class _LabelsText:
    """Labels as text, made once for the many families in which one subtask has the same ones.

    The library's ``generate_latest`` sorts and escapes them for every sample, which is most of what
    it does; a test holds its text against this one.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Labels, str]] = {}

    def of(self, labels: Labels) -> str:
        """By identity; the labels are kept, so that no others get the same one."""
        found = self._texts.get(id(labels))
        if found is None:
            found = self._texts[id(labels)] = labels, _labels_text(labels)
        return found[1]


def _labels_text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(labels[name])}"' for name in sorted(labels)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


def _metric(family: Family) -> Metric:
    """A family as the library has one. Its own class for counters would rename Flink's."""
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind.value)
    for sample, labels, value in _samples(family):
        metric.add_sample(sample, labels, value)
    return metric


class Observed(Protocol):
    """What a collector reads: a ``NetworkEnvironment``."""

    worker_id: str

    @property
    def address(self) -> str: ...

    def statistics(self) -> EnvironmentStatistics: ...


class FlinknetCollector(Collector):
    """A network environment's metrics for a registry of ``prometheus_client``.

    Make it inside the environment's ``async with`` block, and register it:
    ``REGISTRY.register(FlinknetCollector(environment))``. It may be asked in any thread: what is
    read is read in the environment's event loop, in one turn, and made text of where it is asked.
    After the environment's end it has nothing. Asked in another thread it raises TimeoutError if
    the loop does not turn for ``timeout_s``.
    """

    def __init__(self, environment: Observed, *, timeout_s: float = 5.0) -> None:
        self._environment = environment
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._labels = worker_labels(environment.worker_id, environment.address)

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are not known before the first scrape, and are nobody else's."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Read the environment now."""
        statistics = self._read()
        if statistics is None:
            return
        labels = self._labels
        connections = [ConnectionTotals.of(one) for one in statistics.connections]
        for family in (
            build_info(labels),
            *network_families(labels, statistics, connections),
            *exchange_families(
                [(labels, GateTotals.of(gate)) for gate in statistics.gates],
                [(labels, PartitionTotals.of(one)) for one in statistics.partitions],
            ),
            *topic_families(labels, statistics.topics),
        ):
            yield _metric(family)

    def _read(self) -> EnvironmentStatistics | None:
        if self._loop.is_closed():
            return None
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                return self._statistics()
        read: Future[EnvironmentStatistics | None] = Future()
        self._loop.call_soon_threadsafe(lambda: read.set_result(self._statistics()))
        return read.result(self._timeout_s)

    def _statistics(self) -> EnvironmentStatistics | None:
        try:
            return self._environment.statistics()
        except LocalProtocolError:
            return None

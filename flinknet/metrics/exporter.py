"""Prometheus' side of metrics: the only module that knows its library.

``render`` makes text of families for whoever serves ``/metrics``; ``FlinknetCollector`` is for a
program that embeds a network environment and has a registry of its own. Both read at the moment of
a scrape; between scrapes nothing happens here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, Metric, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from flinknet.errors import LocalProtocolError
from flinknet.metrics.environment_statistics import EnvironmentStatistics
from flinknet.metrics.families import Family, Kind, Labels
from flinknet.metrics.network_families import exchange_families, network_families, worker_labels
from flinknet.metrics.worker_statistics import ConnectionTotals, GateTotals, PartitionTotals

__all__ = ["CONTENT_TYPE", "FlinknetCollector", "render"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""What a scraper is told of the text."""

_PROCESS = ProcessCollector(registry=None)

SAMPLES_PER_PIECE = 100
"""Samples that are made text in one go: about a millisecond, for which the event loop stands."""


async def render(families: Iterable[Family]) -> bytes:
    """The text of families and of this process's own metrics, for ``/metrics``.

    The event loop turns after every ``SAMPLES_PER_PIECE`` samples.
    """
    pieces = []
    written = 0
    for family in families:
        for number, metric in enumerate(_pieces(family)):
            text = generate_latest(_Piece(metric))
            pieces.append(text if number == 0 else _without_head(text))
            written += len(metric.samples)
            if written >= SAMPLES_PER_PIECE:
                written = 0
                await asyncio.sleep(0)
    pieces.append(generate_latest(_PROCESS))
    return b"".join(pieces)


def _pieces(family: Family) -> Iterator[Metric]:
    """The family as the library knows one, in pieces; empty ones too, so that its name is seen."""
    for first in range(0, max(1, len(family.samples)), SAMPLES_PER_PIECE):
        yield _metric(family, family.samples[first : first + SAMPLES_PER_PIECE])


def _metric(family: Family, samples: Sequence[tuple[Labels, float]]) -> Metric:
    """Samples of a family. The library's own class for counters would rename Flink's."""
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind.value)
    for labels, value in samples:
        metric.add_sample(family.name, labels, value)
    return metric


def _without_head(text: bytes) -> bytes:
    """The samples alone: help and type stand in the first piece."""
    return text.split(b"\n", 2)[2]


class _Piece(Collector):
    """One metric, as what the library makes text of."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


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
            *network_families(labels, statistics, connections),
            *exchange_families(
                [(labels, GateTotals.of(gate)) for gate in statistics.gates],
                [(labels, PartitionTotals.of(one)) for one in statistics.partitions],
            ),
        ):
            yield _metric(family, family.samples)

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

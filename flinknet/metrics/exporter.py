"""Prometheus' side of metrics: the only module that knows its library.

``render`` makes text of families for whoever serves ``/metrics``; ``FlinknetCollector`` is for a
program that embeds a network environment and has a registry of its own. Both read at the moment of
a scrape; between scrapes nothing happens here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, Metric, ProcessCollector, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from flinknet.config import MetricsConfig
from flinknet.errors import LocalProtocolError
from flinknet.metrics.build_info import build_info
from flinknet.metrics.catalogue import environment_families
from flinknet.metrics.environment_totals import EnvironmentTotals
from flinknet.metrics.registry import Family, Kind, Labels
from flinknet.metrics.turns import Reading, Turns
from flinknet.metrics.worker_catalogue import worker_labels

__all__ = ["CONTENT_TYPE", "FlinknetCollector", "render"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""What a scraper is told of the text."""

_PROCESS = ProcessCollector(registry=None)


async def render(families: Iterable[Family], turns: Turns) -> AsyncIterator[bytes]:
    """The text of families and of this process's own metrics, for ``/metrics``, piece by piece.

    The event loop turns after every ``turn_ms``, with what was made until then: to put megabytes
    together, and to hand them to a socket, takes longer than that.
    """
    labels_text = _LabelsText()
    parts: list[str] = []
    for family in families:
        parts.append(_head(family))
        for name, labels, value in _samples(family):
            parts.append(f"{name}{labels_text.of(labels)} {_number(value)}\n")
            if turns.is_over:
                yield "".join(parts).encode()
                parts.clear()
                await turns.rest()
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

    def totals(self, turns: Turns) -> Reading[EnvironmentTotals]: ...


class FlinknetCollector(Collector):
    """A network environment's metrics for a registry of ``prometheus_client``.

    Make it inside the environment's ``async with`` block, and register it:
    ``REGISTRY.register(FlinknetCollector(environment))``. It may be asked in any thread: what is
    read is read in the environment's event loop, and made text of where it is asked. Asked in
    another thread, as Prometheus' own server does, it lets the loop turn as ``config`` says; asked
    in the loop's thread it cannot, and thousands of channels hold the loop for some milliseconds.
    After the environment's end it has nothing. Asked in another thread it raises TimeoutError if
    the loop has not read everything in ``timeout_s``.
    """

    def __init__(
        self, environment: Observed, config: MetricsConfig | None = None, *, timeout_s: float = 5.0
    ) -> None:
        self._environment = environment
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._labels = worker_labels(environment.worker_id, environment.address)

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are not known before the first scrape, and are nobody else's."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Read the environment now."""
        totals = self._read()
        if totals is None:
            return
        labels = self._labels
        for family in (build_info(labels), *environment_families(labels, totals)):
            yield _metric(family)

    def _read(self) -> EnvironmentTotals | None:
        if self._loop.is_closed():
            return None
        turns = Turns(self._config)
        with suppress(LocalProtocolError):
            if _running_loop() is self._loop:
                return turns.at_once(self._environment.totals(turns))
            reading = turns.go_through(self._environment.totals(turns))
            read = asyncio.run_coroutine_threadsafe(reading, self._loop)
            try:
                return read.result(self._timeout_s)
            except TimeoutError:
                read.cancel()
                raise
        return None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

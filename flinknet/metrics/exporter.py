"""Export of metrics to Prometheus; the only module that uses its client library.

``render`` returns the text of families, for a server of ``/metrics``. ``FlinknetCollector`` is for
a program that embeds a network environment and has its own registry. Both read at the moment of a
scrape and do no work between scrapes.
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
"""Content type of the text."""

_PROCESS = ProcessCollector(registry=None)


async def render(families: Iterable[Family], turns: Turns) -> AsyncIterator[bytes]:
    """Generate the text of families and of this process's own metrics, for ``/metrics``.

    The event loop runs other tasks after every ``turn_ms``, and the text so far is yielded, because
    joining megabytes and passing them to a socket takes longer than that.
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
    """A cache of labels as text, because a subtask has the same labels in many families.

    The library's ``generate_latest`` sorts and escapes the labels of every sample, which takes most
    of its time. A test compares its text with the text of this module.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Labels, str]] = {}

    def of(self, labels: Labels) -> str:
        """Return the text of labels, by identity.

        The cache holds a reference to the labels, so that no other object can get their identity.
        """
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
    """Return a family as a metric of the library.

    The library's own class for counters would change Flink's names, so the basic class is used.
    """
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind.value)
    for sample, labels, value in _samples(family):
        metric.add_sample(sample, labels, value)
    return metric


class Observed(Protocol):
    """The object that a collector reads: a ``NetworkEnvironment``."""

    worker_id: str

    @property
    def address(self) -> str: ...

    def totals(self, turns: Turns) -> Reading[EnvironmentTotals]: ...


class FlinknetCollector(Collector):
    """A network environment's metrics for a registry of ``prometheus_client``.

    Make it inside the environment's ``async with`` block, and register it:
    ``REGISTRY.register(FlinknetCollector(environment))``. It can be collected from any thread. The
    environment is read in its event loop, and the calling thread makes the text.

    If another thread collects, as Prometheus' own server does, the event loop runs other tasks as
    set by ``config``. Such a call raises TimeoutError if the loop has not read everything in
    ``timeout_s``. If the loop's own thread collects, this is not possible, and thousands of
    channels block the loop for some milliseconds. After the environment's end the collector has no
    metrics.
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
        """Return no metrics: names are unknown before the first scrape and cannot collide."""
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

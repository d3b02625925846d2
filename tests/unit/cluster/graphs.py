"""Small job graphs for the tests of the control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    RateLimitedSource,
    StreamExecutionEnvironment,
)
from flinknet.graph.graph import JobGraph

__all__ = ["endless_graph", "keyed_graph", "two_pipelines"]


def keyed_graph(
    name: str = "sums",
    *,
    records: Iterable[Any] = (("a", 1), ("b", 2), ("a", 3)),
    function: Callable[[Any], Any] = lambda record: record,
    parallelism: int = 2,
) -> JobGraph:
    """Return a graph of one source with a map, and a keyed reduce in ``parallelism`` subtasks with
    a collect sink."""
    environment = StreamExecutionEnvironment()
    mapped = environment.from_collection(list(records)).map(function)
    sums = mapped.key_by(lambda record: record[0]).reduce(
        lambda left, right: (left[0], left[1] + right[1])
    )
    sums.set_parallelism(parallelism).sink_to(CollectSink()).set_parallelism(parallelism)
    return environment.job_graph(name)


def endless_graph(sink: Any = lambda record: None) -> JobGraph:
    """Return a graph of two sources that never end, a keyed map and a sink, in two subtasks
    each."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    numbers = environment.from_source(_numbers())
    numbers.key_by(lambda record: record[0]).map(lambda record: None).sink_to(sink).name("out")
    return environment.job_graph("endless")


def two_pipelines(parallelism: int = 2) -> JobGraph:
    """Return two pipelines that never end and never meet: vertices 0 and 1, and 2 and 3, in the
    same slots."""
    environment = StreamExecutionEnvironment().set_parallelism(parallelism)
    for side in ("left", "right"):
        numbers = environment.from_source(_numbers())
        numbers.key_by(lambda record: record[0]).map(lambda record: None).sink_to(
            lambda record: None
        ).name(side)
    return environment.job_graph("two pipelines")


RATE = 2_000.0
"""Records per second of a source that never ends, so that the test has the processor too."""


def _numbers() -> RateLimitedSource:
    return RateLimitedSource(GeneratorSource(lambda number: (number % 7, number)), RATE)

"""A job with a known answer, and a reader of its output."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet

from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    KeyedProcessFunction,
    ParquetSink,
    ProcessContext,
    StreamExecutionEnvironment,
)
from flinknet.graph.graph import JobGraph

__all__ = ["KEYS", "answer", "read_output", "sums_of"]

KEYS = 97


class Sums(KeyedProcessFunction):
    """A function that emits sum and count of each key at the end of input."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._sums: dict[int, tuple[int, int]] = {}

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        key, number = value
        total, count = self._sums.get(key, (0, 0))
        self._sums[key] = total + number, count + 1

    def finish(self) -> Iterable[Any]:
        for key, (total, count) in self._sums.items():
            yield key, total, count, self._generation


def sums_of(count: int, path: Path, generation: int) -> JobGraph:
    """Return a job that sums the numbers below ``count`` by key, and writes them to ``path``."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    numbers = environment.from_source(
        GeneratorSource(lambda number: (number % KEYS, number), count)
    )
    sums = numbers.key_by(lambda record: record[0]).process(Sums(generation))
    sums.sink_to(CollectSink()).name("sums")
    columns = dict.fromkeys(("key", "total", "count", "generation"), "int64")
    sums.sink_to(ParquetSink(path, columns))
    return environment.job_graph(f"sums {generation}")


def answer(count: int, generation: int) -> list[tuple[int, ...]]:
    """Return the expected result."""
    return [
        (key, sum(range(key, count, KEYS)), len(range(key, count, KEYS)), generation)
        for key in range(KEYS)
    ]


def read_output(path: Path) -> list[tuple[int, ...]]:
    """Return the records that a reader of the directory finds."""
    if not path.exists():
        return []
    rows = pyarrow.parquet.read_table(path).to_pylist()
    return sorted(tuple(row.values()) for row in rows)

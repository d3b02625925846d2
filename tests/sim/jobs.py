"""Jobs for simulations."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.config.restart_strategy import FixedDelayRestart
from flinknet.datastream import (
    CollectionSource,
    CollectSink,
    RateLimitedSource,
    StreamExecutionEnvironment,
)
from flinknet.graph.graph import JobGraph

__all__ = ["KEYS", "RECORDS", "sums"]

KEYS = 7
RECORDS = 1_000
RECORDS_PER_S = 100.0
FAILS_AT = 600

_failures: list[int] = []


def _fail_once(record: tuple[int, int]) -> tuple[int, int]:
    if record[1] == FAILS_AT and not _failures:
        _failures.append(FAILS_AT)
        raise ValueError("the simulated failure")
    return record


def _ask_the_clock(record: tuple[int, int]) -> tuple[int, int]:
    time.monotonic()
    return record


def _key(record: tuple[int, int]) -> int:
    return record[0]


def _add(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return left[0], left[1] + right[1]


MAPS = {"fails once": _fail_once, "asks the clock": _ask_the_clock}


def sums(job: str) -> JobGraph:
    """Return a job that sums by key for ten seconds, over an exchange between two workers."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    source: Any = CollectionSource([(number % KEYS, number) for number in range(RECORDS)])
    numbers = environment.from_source(RateLimitedSource(source, RECORDS_PER_S))
    if job in MAPS:
        numbers = numbers.map(MAPS[job])
    numbers.key_by(_key).reduce(_add).sink_to(CollectSink())
    environment.set_restart_strategy(FixedDelayRestart(1, 50.0))
    graph = environment.job_graph("sums")
    return replace(graph, checkpointing=JobCheckpointingConfig(1_000.0))

"""User code that blocks a worker's event loop for longer than every heartbeat timeout."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import pytest

from flinknet.cluster import LocalCluster
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig, WireLimits
from flinknet.datastream import (
    CollectSink,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinknet.errors import WorkerLostError
from flinknet.graph.graph import JobGraph

HELD_UP_S = 3.0


def configured(task_stuck_timeout_ms: float = 0.0) -> FlinknetConfig:
    """Return timeouts of a third of the time that the code takes, or less."""
    return FlinknetConfig(
        network=NetworkConfig(
            network_memory_bytes=8 * 2**20,
            segment_bytes=4096,
            connect_timeout_ms=HELD_UP_S * 1000 / 3,
            heartbeat_interval_ms=100.0,
            heartbeat_timeout_ms=HELD_UP_S * 1000 / 3,
            rendezvous_timeout_ms=HELD_UP_S * 1000 / 3,
            wire=WireLimits(handshake_timeout_ms=HELD_UP_S * 1000 / 6),
        ),
        cluster=ClusterConfig(
            heartbeat_interval_ms=100.0,
            heartbeat_timeout_ms=HELD_UP_S * 1000 / 3,
            coordinator_timeout_ms=HELD_UP_S * 1000 / 3,
            task_stuck_timeout_ms=task_stuck_timeout_ms,
        ),
    )


def sleep() -> None:
    time.sleep(HELD_UP_S)


def sleep_with_the_interpreter_lock() -> None:
    """Sleep as a C extension does that computes without releasing the interpreter lock."""
    ctypes.PyDLL(None).usleep(int(HELD_UP_S * 1e6))


class Slow(MapFunction):
    """A function that takes long for one record or for its start."""

    def __init__(self, wait: Callable[[], None], at: int | None) -> None:
        self._wait = wait
        self._at = at

    def open(self, runtime_context: RuntimeContext) -> None:
        if self._at is None and runtime_context.index == 0:
            self._wait()

    def map(self, value: int) -> int:
        if value == self._at:
            self._wait()
        return value


def slow(wait: Callable[[], None], at: int | None) -> JobGraph:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    numbers = environment.from_collection(list(range(1000))).rebalance()
    numbers.map(Slow(wait, at)).rebalance().sink_to(CollectSink()).name("out")
    return environment.job_graph("slow")


@pytest.mark.parametrize(
    ("wait", "at"),
    [(sleep, None), (sleep, 0), (sleep, 500), (sleep_with_the_interpreter_lock, 500)],
    ids=["open", "first record", "later record", "later record, with the interpreter lock"],
)
async def test_a_worker_whose_code_is_slow_is_not_lost(
    wait: Callable[[], None], at: int | None
) -> None:
    """A worker with slow code is not lost, and no link, handshake or request of it fails."""
    async with LocalCluster(configured()) as cluster:
        result = await cluster.execute(slow(wait, at))
    assert sorted(result.collected["out"]) == list(range(1000))


async def test_a_time_limit_of_the_user_ends_code_that_blocks_a_worker() -> None:
    async with LocalCluster(configured(task_stuck_timeout_ms=HELD_UP_S * 1000 / 2)) as cluster:
        with pytest.raises(WorkerLostError, match=r"user code .*task_stuck_timeout_ms"):
            await cluster.execute(slow(sleep, 500))

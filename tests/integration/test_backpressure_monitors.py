"""Backpressure by stack samples, as Flink measured it before 1.13, agrees with that by time.

A producer and a consumer run in virtual time. Making a buffer takes one millisecond, and consuming
it takes several, so the share of time that the producer waits is known. Nothing else takes time,
and time passes when no task can run.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType

import pytest

from flinknet.cluster.worker import stack_sampler
from flinknet.cluster.worker.stack_sampler import Sampled, StackSampler
from flinknet.config import ClusterConfig, NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.graph.deployment import SubtaskDescriptor
from flinknet.net import task_clock
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.runtime.running_subtask import RUNNING_SUBTASK

SEGMENT_BYTES = 1024
CONFIG = NetworkConfig(segment_bytes=SEGMENT_BYTES, network_memory_bytes=SEGMENT_BYTES * 32)
RECORD = b"x" * (SEGMENT_BYTES - 20)
"""A record that fills a buffer."""

LOOKS = 400
DELAY_S = 0.05
TURNS = 50
"""Turns of the event loop in which all tasks finish the work of one moment."""


class VirtualTime:
    """A clock with sleeping tasks and a sampler."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._look: Callable[[FrameType | None], float | None] | None = None

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), future))
        await future

    @contextmanager
    def trigger(self, look: Callable[[FrameType | None], float | None]) -> Iterator[None]:
        self._look = look
        yield
        self._look = None

    async def pass_by(self, done: asyncio.Task[object]) -> None:
        """Let time pass until ``done`` has ended."""
        look_at = self.now + DELAY_S
        while not done.done():
            for _ in range(TURNS):
                await asyncio.sleep(0)
            next_s = self._sleepers[0][0]
            while self._look is not None and look_at < next_s:
                self.now = look_at
                pause_s = self._look(None)
                if pause_s is None:
                    self._look = None
                    break
                look_at += pause_s
            self.now, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)


@pytest.mark.parametrize("slower", [1, 2, 4, 10])
async def test_the_old_monitor_and_the_new_one_agree(
    slower: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = VirtualTime()
    monkeypatch.setattr(task_clock, "task_time", lambda: time.now)
    # a busy machine must not end the series of samples early
    monkeypatch.setattr(stack_sampler, "LOOK_S", 3600.0)
    async with NetworkEnvironment(config=CONFIG) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        writer = environment.create_record_writer(partition)
        location = PartitionLocation(environment.address, "p", 0)
        gate = environment.create_input_gate([location], name="gate")
        reader = environment.create_record_reader(gate)

        async def produce() -> None:
            RUNNING_SUBTASK.set(SubtaskDescriptor("job", 0, 0, 0, 1, "Map", (), ()))
            while True:
                await time.sleep(0.001)
                await writer.emit(RECORD)

        async def consume() -> None:
            while (batch := await reader.next_batch()) is not None:
                for _ in batch:
                    await time.sleep(0.001 * slower)

        tasks = [asyncio.create_task(produce()), asyncio.create_task(consume())]
        sampler = StackSampler(ClusterConfig())
        whose = Sampled("job", 0, 0)
        sampling = asyncio.create_task(sampler.sample(whose, LOOKS, DELAY_S, time.trigger))
        await time.pass_by(sampling)
        (producer,) = [one for one in environment.statistics().task_times if one.name == "p"]
        old = (await sampling).looks()[0]
        assert old.all == LOOKS
        new = producer.backpressured_time_ms_per_second / 1000
        print(f"old {old.ratio:.3f}, new {new:.3f}")
        assert old.ratio == pytest.approx(new, abs=0.1)
        assert new == pytest.approx(1 - 1 / slower, abs=0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        reader.close()
        gate.release()

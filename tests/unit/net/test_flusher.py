from __future__ import annotations

from asyncio import AbstractEventLoop
from typing import Any, cast

import pytest

from flinknet.config import NetworkConfig
from flinknet.net.flusher import EventLoopFlusher
from flinknet.records.partitioner import RebalancePartitioner
from flinknet.records.writer import RecordWriter
from tests.unit.arrangements import make_partition, run, view_of, wait
from tests.unit.net.turns import Turns


class Arranged:
    def __init__(self, subpartitions: int, timeout: Any, **options: Any) -> None:
        self.loop = Turns()
        self.sends_at_once = False
        partition, _ = make_partition(subpartitions, segments=4 * subpartitions)
        config = NetworkConfig(**options)
        self.writer = RecordWriter(
            partition,
            RebalancePartitioner(),
            wait=wait,
            flusher=EventLoopFlusher(cast(AbstractEventLoop, self.loop), config, self),
            buffer_timeout_ms=timeout,
            record_bytes_max=config.record_bytes_max,
            record_elements_max=config.record_elements_max,
        )
        self.views = [view_of(partition, index) for index in range(subpartitions)]

    def emit(self) -> None:
        run(self.writer.emit(1))

    @property
    def flushed(self) -> bool:
        return self.views[0].backlog() > 0


def test_a_positive_timeout_flushes_when_it_is_over() -> None:
    """This holds for a busy writer and an idle one."""
    arranged = Arranged(1, 5)
    arranged.emit()
    for _ in range(4):
        arranged.loop.turn(0.001)
        arranged.emit()
        assert not arranged.flushed
    arranged.loop.turn(0.001)
    assert arranged.flushed


def test_adaptive_flushes_when_the_writer_pauses() -> None:
    arranged = Arranged(1, "adaptive")
    arranged.emit()
    for _ in range(5):
        arranged.loop.turn()
        assert not arranged.flushed
        arranged.emit()
    arranged.loop.turn()
    assert not arranged.flushed
    arranged.loop.turn()
    assert arranged.flushed


@pytest.mark.parametrize(("subpartitions", "turns"), [(1, 10), (4, 10), (30, 15)])
def test_adaptive_flushes_a_busy_writer_in_time(subpartitions: int, turns: int) -> None:
    """The time grows with the number of channels, as the cost of a flush does."""
    arranged = Arranged(
        subpartitions, "adaptive", adaptive_flush_ms_max=10, adaptive_flush_us_per_channel=500
    )
    arranged.emit()
    for _ in range(turns - 1):
        arranged.loop.turn(0.001)
        arranged.emit()
        assert not arranged.flushed
    arranged.loop.turn(0.00101)
    assert arranged.flushed

"""The request timer, over a loop with a clock that the test advances."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from flinknet.errors import PartitionRequestTimeoutError
from flinknet.net.request_timer import RequestTimer
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from tests.unit.arrangements import Reader
from tests.unit.net.test_debloat_timer import HandLoop

TIMEOUT_S = 10.0
P = wire_partition_id("p")


class Arranged:
    def __init__(self, notice_s: float = 0.0) -> None:
        self.loop = HandLoop()
        self.registry = PartitionRegistry(TIMEOUT_S, notice_s)
        self.timer = RequestTimer(cast(asyncio.AbstractEventLoop, self.loop), self.registry)

    def request(self) -> Reader:
        reader = Reader()
        self.registry.request(P, 0, reader, self.loop.time())
        return reader


def test_each_request_waits_its_own_time() -> None:
    """D17."""
    arranged = Arranged()
    first = arranged.request()
    arranged.loop.advance(4.0)
    second = arranged.request()
    assert len(arranged.loop.pending) == 1
    arranged.loop.advance(6.0)
    assert [type(failure) for failure in first.failures] == [PartitionRequestTimeoutError]
    assert second.failures == []
    arranged.loop.advance(4.0)
    assert [type(failure) for failure in second.failures] == [PartitionRequestTimeoutError]
    assert arranged.loop.pending == []


def test_the_timer_runs_only_while_a_request_waits() -> None:
    arranged = Arranged()
    assert arranged.loop.pending == []
    arranged.request()
    assert len(arranged.loop.pending) == 1
    arranged.timer.cancel()
    arranged.timer.cancel()
    assert arranged.loop.pending == []


def test_long_waiting_requests_are_logged_once_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    arranged = Arranged(notice_s=3.0)
    for _ in range(5):
        arranged.request()
    arranged.loop.advance(2.9)
    assert caplog.messages == []
    arranged.loop.advance(0.2)
    (line,) = caplog.messages
    assert "not registered in this worker" in line
    assert "and 2 more" in line
    assert "registered: none" in line
    arranged.loop.advance(6.0)
    assert len(caplog.messages) == 1

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from flinknet.buffer.availability import Availability, WaitReason
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import BufferDebloatConfig
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.union_input_gate import UnionInputGate
from flinknet.net.debloat_timer import DebloatTimer
from tests.unit.arrangements import THERE, deliver, make_gate, run

SEGMENT_BYTES = 1000
PERIOD_S = 0.2
CONFIG = BufferDebloatConfig(enabled=True, samples=1, segment_bytes_min=10)


class HandLoop:
    """A loop that has only timers, and a clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def call_later(self, delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback)

    def call_at(self, when: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, (), cast(Any, self))
        self.timers.append(handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: ``timers`` keeps the cancelled timer."""

    @property
    def pending(self) -> list[asyncio.TimerHandle]:
        return [timer for timer in self.timers if not timer.cancelled()]

    def advance(self, seconds: float) -> None:
        """Advance the clock and call the due timers in order."""
        end = self.now + seconds
        while due := [timer for timer in self.pending if timer.when() <= end]:
            timer = min(due, key=asyncio.TimerHandle.when)
            self.timers.remove(timer)
            self.now = timer.when()
            timer._run()
        self.now = end


class Arranged:
    """A timer for gates that have each received a number of bytes."""

    def __init__(self, *sizes: int, config: BufferDebloatConfig = CONFIG) -> None:
        self.loop = HandLoop()
        self.timer = DebloatTimer(cast(asyncio.AbstractEventLoop, self.loop), config)
        self.pool = NetworkBufferPool(64, SEGMENT_BYTES)
        self.gates = [self.make_gate(size, config) for size in sizes]

    def make_gate(self, size: int, config: BufferDebloatConfig) -> InputGate:
        gate, _ = make_gate(THERE, pool=self.pool, segment_bytes=SEGMENT_BYTES, debloat=config)
        self.timer.add(gate)
        deliver(gate.remote_channels[0], 0, bytes(size))
        polled = gate.poll()
        assert polled is not None
        polled[1].recycle()
        return gate

    def sizes(self) -> list[int]:
        counts = [gate.statistics().debloating for gate in self.gates]
        return [each.buffer_bytes for each in counts if each is not None]

    async def wait(self, availability: Availability, reason: WaitReason) -> None:
        self.loop.advance(1.0)


def test_one_timer_serves_all_gates_of_each_its_own_size() -> None:
    """Census 1.8: this happens in every period."""
    arranged = Arranged(20, 40, 60)
    for gate in arranged.gates:
        arranged.timer.measured(gate, arranged.wait)
    assert len(arranged.loop.pending) == 1
    arranged.loop.advance(PERIOD_S * 0.9)
    assert arranged.sizes() == [SEGMENT_BYTES] * 3
    arranged.loop.advance(PERIOD_S * 0.1)
    assert arranged.sizes() == [pytest.approx(5 * size, abs=1) for size in (20, 40, 60)]
    assert len(arranged.loop.pending) == 1
    arranged.loop.advance(PERIOD_S)
    assert arranged.sizes() == [10, 10, 10], "a whole period without a byte"


def test_the_timer_runs_while_there_are_gates() -> None:
    arranged = Arranged(20, 40)
    arranged.gates[0].release()
    arranged.loop.advance(5 * PERIOD_S)
    assert len(arranged.loop.pending) == 1
    arranged.gates[1].release()
    assert arranged.loop.pending == []
    arranged.make_gate(20, CONFIG)
    assert len(arranged.loop.pending) == 1


def test_a_gate_may_be_released_by_what_its_size_causes() -> None:
    """A size that cannot be sent may cost the connection and the gate's task."""
    arranged = Arranged(20, 40)
    for gate in arranged.gates:
        arranged.timer.measured(gate, arranged.wait)
    channel = arranged.gates[0].remote_channels[0]
    assert channel._client is not None
    release = arranged.gates[0].release
    channel._client.announce_buffer_size = lambda *_: release()  # type: ignore[method-assign]
    arranged.loop.advance(PERIOD_S)
    assert arranged.gates[0].released
    assert arranged.sizes()[1] == pytest.approx(200, abs=1)


def test_the_time_that_a_reader_waits_does_not_count() -> None:
    """P3."""
    arranged = Arranged(20)
    wait = arranged.timer.measured(arranged.gates[0], arranged.wait)
    arranged.loop.advance(PERIOD_S / 2)
    run(wait(Availability(), WaitReason.IDLE))
    assert arranged.sizes() == [pytest.approx(200, abs=1)]


def test_the_reader_of_a_union_waits_for_all_its_gates() -> None:
    arranged = Arranged(20, 40)
    wait = arranged.timer.measured(UnionInputGate(arranged.gates), arranged.wait)
    arranged.loop.advance(PERIOD_S / 2)
    run(wait(Availability(), WaitReason.IDLE))
    assert arranged.sizes() == [pytest.approx(200, abs=1), pytest.approx(400, abs=1)]


def test_a_wait_that_is_cancelled_is_over() -> None:
    arranged = Arranged(20)

    async def wait(availability: Availability, reason: WaitReason) -> None:
        arranged.loop.advance(PERIOD_S * 0.9)
        raise asyncio.CancelledError

    measured = arranged.timer.measured(arranged.gates[0], wait)
    with pytest.raises(asyncio.CancelledError):
        run(measured(Availability(), WaitReason.IDLE))
    arranged.loop.advance(PERIOD_S * 0.1)
    assert arranged.sizes() == [pytest.approx(1000, abs=1)]


def test_without_debloating_there_is_no_timer() -> None:
    arranged = Arranged(20, config=BufferDebloatConfig())
    assert arranged.timer.measured(arranged.gates[0], arranged.wait) == arranged.wait
    assert arranged.loop.timers == []

"""The debloat timer: when a worker's gates recalculate their buffer sizes.

One timer serves all gates, and runs only while there are any. The timer also wraps the reader's
wait to tell the gate about it, because waiting time does not count for the gate's throughput.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle

from flinknet.buffer.availability import Availability, Wait, WaitReason
from flinknet.config import BufferDebloatConfig
from flinknet.consumer.gate import Gate
from flinknet.consumer.input_gate import InputGate

__all__ = ["DebloatTimer"]


class DebloatTimer:
    """Calls ``GateDebloating.recalculate`` every ``period_ms`` if debloating is enabled."""

    def __init__(self, loop: AbstractEventLoop, config: BufferDebloatConfig) -> None:
        self._loop = loop
        self._config = config
        self._gates: dict[InputGate, None] = {}
        self._timer: TimerHandle | None = None

    def add(self, gate: InputGate) -> None:
        """Serve a gate until it is released."""
        if self._config.enabled:
            self._gates[gate] = None
            gate.when_released(self._forget)
            if self._timer is None:
                self._arm()

    def measured(self, gate: Gate, wait: Wait) -> Wait:
        """Return a wait for the gate's reader that also reports its duration to the gate."""
        if not self._config.enabled:
            return wait
        # The reader is busy until its first wait.
        for each in gate.gates:
            each.debloating.end_wait(self._loop.time())

        async def measured_wait(availability: Availability, reason: WaitReason) -> None:
            for each in gate.gates:
                each.debloating.begin_wait(self._loop.time())
            try:
                await wait(availability, reason)
            finally:
                for each in gate.gates:
                    each.debloating.end_wait(self._loop.time())

        return measured_wait

    def _arm(self) -> None:
        self._timer = self._loop.call_later(self._config.period_ms / 1000, self._run)

    def _run(self) -> None:
        self._timer = None
        now = self._loop.time()
        for gate in tuple(self._gates):
            gate.debloating.recalculate(now)
        if self._gates:
            self._arm()

    def _forget(self, gate: InputGate) -> None:
        self._gates.pop(gate, None)
        if not self._gates and self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""The meaning of the usage of a task's buffer pools, in sentences.

The table is from Flink's documentation on backpressure:

| out pool | in pool | meaning |
|---|---|---|
| low | low | normal |
| high | low | backpressured by downstream, and has not passed it on yet |
| low | high | passes backpressure on: this task is the bottleneck, or will be |
| high | high | backpressured by downstream, probably from further down |

The pools do not contain all buffers of a task's inputs and outputs. A side therefore also counts as
high in these cases:

- out: the task has waited for a buffer. One full subpartition blocks a writer, although the other
  subpartitions leave most of the pool free.
- in: a remote channel is short of credit in half of the reports. The channels of a gate are
  examined one by one, because idle channels have enough credit for all together. Credit that a busy
  gate holds back counts as used, in the pools too, because producers are not told of it.
- in: producers have waited for the task. A local channel has no buffers of its own; its waiting
  data fills the out pool of its producer.

Floating buffers in use and free exclusive buffers mean skew: a few channels hold most of the data.
Usages are averages over the reports of a period, because the state at one moment may be a spike.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from statistics import fmean
from typing import NamedTuple

from flinknet.metrics.task_catalogue import GATE, TASK
from flinknet.metrics.task_times import LOW_MS_PER_SECOND
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = ["HIGH", "OK_SHARE", "PoolMeaning", "PoolUsage"]

HIGH = 0.7
"""Share of a pool from which its usage is high.

The documentation gives no number. Full is 1, and data that only passes through fills less than
half.
"""

SHORT = 0.5
"""Share of the reports from which channels without credit are no coincidence."""

OK_SHARE = LOW_MS_PER_SECOND / 1000
"""Share of its time that a task may wait."""


class PoolMeaning(Enum):
    """The meaning of the two usages together."""

    NORMAL = "normal"
    BACKPRESSURED = "backpressured by downstream, and has not passed it on yet"
    BOTTLENECK = "passes backpressure on: this task is the bottleneck, or will be"
    PASSED_ON = "backpressured by downstream, probably from further down"


_TABLE = {
    (False, False): PoolMeaning.NORMAL,
    (True, False): PoolMeaning.BACKPRESSURED,
    (False, True): PoolMeaning.BOTTLENECK,
    (True, True): PoolMeaning.PASSED_ON,
}
"""Meaning by whether the out side and the in side of a task are high."""


_OF_THE_TASK = {
    "in_pool": TASK["buffers.inPoolUsage"],
    "out_pool": TASK["buffers.outPoolUsage"],
    "floating": TASK["buffers.inputFloatingBuffersUsage"],
    "exclusive": TASK["buffers.inputExclusiveBuffersUsage"],
    "queued_in": TASK["buffers.inputQueueLength"],
    "queued_out": TASK["buffers.outputQueueLength"],
}

_OF_ITS_GATES = {
    "backlog": GATE["flinknet_gate_backlog"],
    "credit_announced": GATE["flinknet_gate_credit_announced"],
    "credit_unannounced": GATE["flinknet_gate_credit_unannounced"],
    "credit_held": GATE["flinknet_gate_credit_held"],
    "channels_short": GATE["flinknet_gate_channels_short"],
}


class PoolUsage(NamedTuple):
    """The pools of one subtask, at one moment or on average."""

    in_pool: float
    """Share of the gates' buffers that producers cannot fill.

    These buffers hold data or are held back.
    """
    out_pool: float
    """Share of the result partitions' buffers in use; over 1 with overdraft."""
    floating: float
    exclusive: float
    queued_in: float
    queued_out: float
    backlog: float
    credit_announced: float
    credit_unannounced: float
    credit_held: float
    """Unannounced buffers that are held back while a gate is busy."""
    channels: float
    """Remote channels; local channels have neither buffers nor credit."""
    channels_short: float
    """Remote channels with producers that wait for credit."""
    short: float
    """Share of the reports with such channels."""
    backpressured: float
    """Share of the task's time in which it was backpressured."""
    waited_for: float = 0.0
    """Largest share of its time that a producer has waited for this task."""

    @classmethod
    def of(cls, task: SubtaskTotals) -> PoolUsage:
        """Return the usage in a worker's report."""
        own = {field: metric.value(task) or 0 for field, metric in _OF_THE_TASK.items()}
        gates = {field: metric.total(task.gates) or 0 for field, metric in _OF_ITS_GATES.items()}
        return cls(
            **own,
            **gates,
            channels=sum(gate.remote_channels for gate in task.gates),
            short=float(gates["channels_short"] > 0),
            backpressured=float(task.times.is_backpressured),
        )

    @classmethod
    def average(cls, usages: Sequence[PoolUsage], backpressured: float) -> PoolUsage:
        """Return the average over several reports of one task.

        ``backpressured`` is the share of its time in which the task was backpressured.
        """
        mean = cls(*map(fmean, zip(*usages, strict=True)))
        return mean._replace(backpressured=backpressured)

    def rounded(self) -> PoolUsage:
        """Return a copy rounded to significant digits, for display and for programs."""
        return PoolUsage(*(round(value, 4) for value in self))

    @property
    def meaning(self) -> PoolMeaning:
        """The meaning by the table."""
        return _TABLE[self._is_out_high, self._is_in_high]

    @property
    def is_skewed(self) -> bool:
        """Whether a few of several channels hold most of the data."""
        return self.channels > 1 and self.floating >= HIGH and self.exclusive < 1 - HIGH

    def sentences(self) -> list[str]:
        """Return sentences about the usage, each with its numbers."""
        said = [f"{self._pools()}: {self.meaning.value}"]
        buffers = f"floating buffers {self.floating:.0%} and exclusive {self.exclusive:.0%} in use"
        if self.is_skewed:
            said.append(f"{buffers}: skew, a few channels hold most of the data")
        elif self.floating >= HIGH and self.exclusive >= HIGH:
            said.append(f"{buffers}: all channels are backpressured")
        if self.channels:
            said.append(self._credit())
        return said

    @property
    def _is_out_high(self) -> bool:
        return self.backpressured > OK_SHARE or (self.out_pool >= HIGH and self.backpressured > 0)

    @property
    def _is_in_high(self) -> bool:
        return self.in_pool >= HIGH or self.short >= SHORT or self.waited_for > OK_SHARE

    def _pools(self) -> str:
        """Describe the usages, and other reasons for which a side of the task counts as high."""
        said = f"out pool {self.out_pool:.0%} and in pool {self.in_pool:.0%} in use"
        if self.backpressured > OK_SHARE and self.out_pool < HIGH:
            said += f", waited for an output buffer {self.backpressured:.0%} of the time"
        if self.waited_for > OK_SHARE and self.in_pool < HIGH:
            said += f", a producer waited for it {self.waited_for:.0%} of the time"
        return said

    def _credit(self) -> str:
        said = (
            f"credit of {_number(self.credit_announced)} announced and "
            f"{_number(self.credit_unannounced)} unannounced buffers, of which "
            f"{_number(self.credit_held)} are held back, for a backlog of {_number(self.backlog)}"
        )
        if self.short:
            channels = f"{_number(self.channels_short)} of {_number(self.channels)} channels"
            return f"{said}: the producers of {channels} wait for credit"
        usable = self.credit_announced + self.credit_unannounced - self.credit_held
        if self.credit_held and usable < 1:
            # The backlog may be outdated, because producers report it together with the data that
            # they send.
            return f"{said}: no producer may send until the reader has processed its buffers"
        return f"{said}: " + ("normal" if usable >= self.backlog else "more data is on its way")


def _number(value: float) -> str:
    """Format a number with one decimal, unless that is 0."""
    return f"{value:.1f}".removesuffix(".0")

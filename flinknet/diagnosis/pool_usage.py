"""What the usage of a task's buffer pools says, in sentences.

The table of Flink's documents on backpressure:

| out pool | in pool | meaning |
|---|---|---|
| low | low | normal |
| high | low | held back from downstream, and has not passed it on yet |
| low | high | passes backpressure on: this task is the bottleneck, or will be |
| high | high | held back from downstream, probably from further down |

Floating buffers in use and exclusive ones free mean skew: a few channels hold most of the data. And
a gate whose credit, announced or not, is enough for the backlog of its producers is not what they
wait for.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from flinknet.metrics.task_families import (
    exclusive_usage,
    floating_usage,
    in_pool_usage,
    out_pool_usage,
)
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = ["HIGH", "PoolMeaning", "PoolUsage"]

HIGH = 0.7
"""Part of a pool from which on its usage is high. The documents say no number; full is 1, and what
is only passed through fills less than half."""


class PoolMeaning(Enum):
    """What the two usages mean together."""

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
"""By whether the usage of the out pool and of the in pool is high."""


class PoolUsage(NamedTuple):
    """The pools of one subtask at one moment."""

    in_pool: float
    """Of the buffers of its gates, the part that holds data."""
    out_pool: float
    """Of those of its result partitions; over 1 with overdraft."""
    floating: float
    exclusive: float
    queued_in: int
    queued_out: int
    backlog: int
    credit_announced: int
    credit_unannounced: int
    has_inputs: bool

    @classmethod
    def of(cls, task: SubtaskTotals) -> PoolUsage:
        """Read them off what a worker has reported."""
        return cls(
            in_pool=in_pool_usage(task),
            out_pool=out_pool_usage(task),
            floating=floating_usage(task),
            exclusive=exclusive_usage(task),
            queued_in=sum(gate.queued_buffers for gate in task.gates),
            queued_out=sum(partition.queued_buffers for partition in task.partitions),
            backlog=sum(gate.backlog for gate in task.gates),
            credit_announced=sum(gate.credit_announced for gate in task.gates),
            credit_unannounced=sum(gate.credit_unannounced for gate in task.gates),
            has_inputs=bool(task.gates),
        )

    @property
    def meaning(self) -> PoolMeaning:
        """By the table."""
        return _TABLE[self.out_pool >= HIGH, self.in_pool >= HIGH]

    @property
    def is_skewed(self) -> bool:
        """Whether a few channels hold most of the data."""
        return self.floating >= HIGH and self.exclusive < 1 - HIGH

    @property
    def has_credit(self) -> bool:
        """Whether there is a buffer for everything that waits at the producers."""
        return self.credit_announced + self.credit_unannounced >= self.backlog

    def sentences(self) -> list[str]:
        """What they say, each with its numbers."""
        pools = f"out pool {self.out_pool:.0%} and in pool {self.in_pool:.0%} in use"
        buffers = f"floating buffers {self.floating:.0%} and exclusive {self.exclusive:.0%} in use"
        said = [f"{pools}: {self.meaning.value}"]
        if self.is_skewed:
            said.append(f"{buffers}: skew, a few channels hold most of the data")
        elif self.floating >= HIGH and self.exclusive >= HIGH:
            said.append(f"{buffers}: all channels are backpressured")
        if self.has_inputs:
            verdict = "normal" if self.has_credit else "its producers wait for credit"
            said.append(
                f"credit of {self.credit_announced} announced and {self.credit_unannounced} "
                f"unannounced buffers for a backlog of {self.backlog}: {verdict}"
            )
        return said

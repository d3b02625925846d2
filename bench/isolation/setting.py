"""What both processes of a run are told, and what they tell their parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from bench.exchange.cases import small_tuples
from bench.harness.process import Clocks
from flinknet import NetworkConfig

__all__ = ["RECORDS", "OneMore", "Received", "Sent", "Setting", "Window"]

RECORDS = small_tuples.CASE
"""What every channel carries: the same block over and over."""

OneMore = Literal["without", "running", "stopped"]
"""What the last channel does: it is not there, it is one like the others, or its consumer stops."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Some channels that are measured, and one more or not; every channel has a producer of its
    own, a partition, a gate and a consumer. All share one connection."""

    others: int
    one_more: OneMore
    flow_control: Literal["credit", "off"]

    @property
    def channels(self) -> int:
        """How many there are; the one more is the last."""
        return self.others + (self.one_more != "without")

    @property
    def config(self) -> NetworkConfig:
        """The configuration of both processes: every default but the mode."""
        return NetworkConfig(flow_control=self.flow_control)


class Window(NamedTuple):
    """The consumer's account of the measured time; nanoseconds are those of the monotonic clock,
    which all processes of a machine share."""

    records: int
    time: Clocks
    begin_ns: int
    end_ns: int
    through_ns: int
    """When everything sent in the measured time had come through, or nothing came any more."""


class Sent(NamedTuple):
    """What the producers of the other channels have sent in the whole run."""

    records: list[int]
    barriers_ns: list[int]
    """When each barrier was sent, on all of these channels."""


class Received(NamedTuple):
    """What the consumers of the other channels have received in the whole run."""

    records: list[int]
    in_order: bool
    barriers_ns: list[tuple[int, int]]
    """When each barrier that has arrived was sent, and when it arrived."""

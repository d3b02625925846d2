"""The messages between both processes of a run and their parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from bench.exchange.cases import small_tuples
from bench.harness.process import Clocks
from flinknet import NetworkConfig

__all__ = ["RECORDS", "OneMore", "Received", "Sent", "Setting", "Window"]

RECORDS = small_tuples.CASE
"""The records of every channel, from one block that is sent repeatedly."""

OneMore = Literal["without", "running", "stopped"]
"""The last channel: absent, running like the others, or with a consumer that stops."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Some measured channels, with one more or without.

    Every channel has its own producer, partition, gate and consumer. All share one connection.
    """

    others: int
    one_more: OneMore
    flow_control: Literal["credit", "off"]

    @property
    def channels(self) -> int:
        """The number of channels; the one more is the last."""
        return self.others + (self.one_more != "without")

    @property
    def config(self) -> NetworkConfig:
        """The configuration of both processes: defaults, except the flow control."""
        return NetworkConfig(flow_control=self.flow_control)


class Window(NamedTuple):
    """The consumer's account of the measured time.

    Nanoseconds are of the monotonic clock, which all processes of a machine share.
    """

    records: int
    time: Clocks
    begin_ns: int
    end_ns: int
    through_ns: int
    """When everything sent in the measured time had arrived, or nothing arrived any more."""


class Sent(NamedTuple):
    """The records and barriers that the other channels' producers sent in the whole run."""

    records: list[int]
    barriers_ns: list[int]
    """The send time of each barrier, which was sent on all of these channels."""


class Received(NamedTuple):
    """The records and barriers that the other channels' consumers received in the whole run."""

    records: list[int]
    in_order: bool
    barriers_ns: list[tuple[int, int]]
    """The send time and the arrival time of each barrier that has arrived."""

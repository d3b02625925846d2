"""The family ``channels`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from bench.channels.figure import draw_channels
from bench.channels.system import CASES, FORMS, SKEW, SYSTEM, TIMEOUTS_MS
from bench.harness.comparison import ComparingFamily
from bench.harness.row import Row, ratio
from bench.harness.table import CPU, RATE_COLUMNS, Column, print_table

__all__ = ["ChannelsFamily", "Floor", "floors"]

EVEN = "channels-1000"
FEWER = ("channels-100", "100 ms")

KEY = (
    "records/s: over all channels together; median of the interleaved runs, on the consumer's "
    "clock; low, high: the slowest and the fastest run. CPU s/M: user and system seconds of both "
    "processes per million records. / 1: records/s over those of one channel in the same variant. "
    "All cases and variants take turns. own even load: channels-1000."
)


class Floor(NamedTuple):
    """A required ratio: the ``value`` of two medians, and its lower bound ``at_least``."""

    name: str
    value: float
    at_least: float


class ChannelsFamily(ComparingFamily):
    """The same records over 1 to 1,000 channels of one connection."""

    name = "channels"
    summary = "throughput and CPU against the number of channels, even and skewed"

    def __init__(self) -> None:
        super().__init__(CASES, SYSTEM, across_cases=True)

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput and CPU, and the required ratios."""
        columns = (
            *RATE_COLUMNS,
            CPU,
            Column("/ 1", partial(_to_one_channel, rows), highlight=True),
        )
        print_table(rows, columns, KEY, console)
        for floor in floors(rows):
            console.print(
                f"{floor.name}: {floor.value:.2f}x; asked: at least {floor.at_least:g}x",
                highlight=False,
            )

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw throughput and CPU against the number of channels."""
        draw_channels(rows, path)


def floors(rows: Sequence[Row]) -> list[Floor]:
    """Return the required ratios for which both sides have been measured."""
    measured = {(row.case, row.variant): row for row in rows}
    asked = [
        (f"{EVEN} at 1 ms over own channels-100 at 100 ms", (EVEN, "1 ms"), FEWER, 0.9),
        *(
            (f"{SKEW} over own even load at {timeout}", (SKEW, timeout), (EVEN, timeout), 0.8)
            for timeout in TIMEOUTS_MS
        ),
    ]
    return [
        Floor(f"{name}, {form}", ratio(measured[one], measured[other]), at_least)
        for name, (case, timeout), (other_case, other_timeout), at_least in asked
        for form in FORMS
        if (one := (case, f"{form}, {timeout}")) in measured
        and (other := (other_case, f"{form}, {other_timeout}")) in measured
    ]


def _to_one_channel(rows: Sequence[Row], row: Row) -> str:
    for other in rows:
        if (other.case, other.variant) == ("channels-1", row.variant) and other is not row:
            return f"{ratio(row, other):.2f}x"
    return ""

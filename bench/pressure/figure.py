"""Lines over time: the data between both ends of the step load, and the usage of each pool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.figure import PEER_COLOURS, SUBJECT_COLOURS, open_panels
from bench.harness.row import Row
from bench.pressure.step_load import BUFFER_BYTES, STEP_S
from bench.pressure.three_stages import POOLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_pressure"]

LINES_HIGH = 12
COLOURS = {"none": PEER_COLOURS[1], "static": PEER_COLOURS[0], "credit": SUBJECT_COLOURS[0]}


def draw_pressure(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows and write a PNG."""
    loads = [row for row in rows if "buffered_mb" in row.parameters]
    stages = [row for row in rows if "usage" in row.parameters]
    with open_panels(path, 2 * bool(loads) + bool(stages), LINES_HIGH) as panels:
        if loads:
            _draw_buffered(panels[0], loads)
            _draw_worked(panels[1], loads)
        for axes in panels:
            axes.set_xlabel("seconds")
            axes.grid(axis="y", visible=True)
        for row in stages:
            _draw_usage(panels[-1], row)


def _draw_buffered(axes: Axes, rows: Sequence[Row]) -> None:
    for row in rows:
        values = row.parameters["buffered_mb"]
        times = [STEP_S * number for number in range(len(values))]
        axes.plot(times, values, color=COLOURS[row.variant], label=row.variant)
    axes.axhline(BUFFER_BYTES / 1e6, color="0.5", linestyle=":")
    axes.set_title("MB made and neither worked off nor lost")
    axes.legend(frameon=False)


def _draw_worked(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw the rate of the sink, averaged over one second."""
    steps = round(1 / STEP_S)
    for row in rows:
        worked = row.parameters["worked_mb"]
        rates = [after - before for before, after in zip(worked, worked[steps:], strict=False)]
        times = [1 + STEP_S * number for number in range(len(rates))]
        axes.plot(times, rates, color=COLOURS[row.variant], label=row.variant)
    axes.set_ylim(bottom=0)
    axes.set_title("MB/s that the sink works off")


def _draw_usage(axes: Axes, row: Row) -> None:
    colours = (*PEER_COLOURS, *SUBJECT_COLOURS)
    for colour, pool in zip(colours, POOLS, strict=False):
        axes.plot(
            row.parameters["times_s"], row.parameters["usage"][pool], color=colour, label=pool
        )
    axes.set_ylim(0, 1.3)
    axes.set_title("Part of each pool that is in use")
    axes.legend(frameon=False)

"""CPU, segments and latency over the load, with a line for each buffer timeout.

For the rising load, the arrived records and their latency over the time of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.figure import PEER_COLOURS, SUBJECT_COLOURS, open_panels
from bench.harness.row import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_ramp_up"]

LINES_HIGH = 14
MARKERS = "os^D"
COLOURS = (SUBJECT_COLOURS[0], *PEER_COLOURS)


def draw_ramp_up(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows and write a PNG."""
    rising = [row for row in rows if "steps" in row.parameters]
    steady = [row for row in rows if "steps" not in row.parameters]
    with open_panels(path, 3 * (bool(steady) + bool(rising)), LINES_HIGH, columns=3) as panels:
        if steady:
            _draw_steady(panels[:3], steady)
        if rising:
            _draw_rising(panels[-3:], rising)
        panels[0].legend(frameon=False)


def _draw_steady(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    _draw(panels[0], rows, "CPU, of one processor", lambda row: row.parameters["cpu_share"])
    _draw(panels[1], rows, "TCP segments per second", lambda row: row.parameters["segments_per_s"])
    _draw(panels[2], rows, "p50 of the latency, ms", _p50_ms)


def _p50_ms(row: Row) -> float:
    assert row.latency_us is not None, "every load is timed"
    return row.latency_us["p50"] / 1000


def _draw_rising(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    _draw_steps(panels[0], rows, "Records/s that came through", "came_through_per_s")
    _draw_steps(panels[1], rows, "p50 of a rising load, ms", "p50", 1e-3)
    _draw_steps(panels[2], rows, "p99 of a rising load, ms", "p99", 1e-3)
    offered = [step["offered_per_s"] for step in rows[0].parameters["steps"]]
    panels[0].plot(_times(rows[0]), offered, color="0.5", linestyle=":")


def _times(row: Row) -> list[float]:
    """Return the middle of each step, in seconds of the run."""
    length_s = row.parameters["step_s"]
    return [length_s * (number + 0.5) for number in range(len(row.parameters["steps"]))]


def _draw_steps(
    axes: Axes, rows: Sequence[Row], title: str, field: str, factor: float = 1.0
) -> None:
    for row, colour, marker in zip(rows, COLOURS, MARKERS, strict=False):
        values = [factor * step[field] for step in row.parameters["steps"]]
        axes.plot(_times(row), values, color=colour, marker=marker, label=row.variant)
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.grid(axis="y", visible=True)
    axes.set_title(title)


def _draw(axes: Axes, rows: Sequence[Row], title: str, value: Callable[[Row], float]) -> None:
    variants = list(dict.fromkeys(row.variant for row in rows))
    for variant, colour, marker in zip(variants, COLOURS, MARKERS, strict=False):
        own = [row for row in rows if row.variant == variant]
        loads = [row.parameters["load_records_per_s"] for row in own]
        axes.plot(loads, list(map(value, own)), color=colour, marker=marker, label=variant)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("records per second")
    axes.grid(axis="y", visible=True)
    axes.set_title(title)

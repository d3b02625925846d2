"""CPU, segments and latency over the load, a line for each buffer timeout."""

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


def draw_ramp_up(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows and write a PNG."""
    with open_panels(path, 3, LINES_HIGH) as panels:
        _draw(panels[0], rows, "CPU, of one processor", lambda row: row.parameters["cpu_share"])
        _draw(
            panels[1],
            rows,
            "TCP segments per second",
            lambda row: row.parameters["segments_per_s"],
        )
        _draw(
            panels[2],
            rows,
            "p50 of the latency, ms",
            lambda row: (row.latency_us or {})["p50"] / 1000,
        )
        panels[0].legend(frameon=False)


def _draw(axes: Axes, rows: Sequence[Row], title: str, value: Callable[[Row], float]) -> None:
    variants = list(dict.fromkeys(row.variant for row in rows))
    colours = (SUBJECT_COLOURS[0], *PEER_COLOURS)
    for variant, colour, marker in zip(variants, colours, MARKERS, strict=False):
        own = [row for row in rows if row.variant == variant]
        loads = [row.parameters["load_records_per_s"] for row in own]
        axes.plot(loads, list(map(value, own)), color=colour, marker=marker, label=variant)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("records per second")
    axes.grid(axis="y", visible=True)
    axes.set_title(title)

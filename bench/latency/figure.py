"""A panel for each load: for each system a line from its median to its 99th percentile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.figure import colour_of, draw_case_panels, draw_spread, label_lines, place_lines
from bench.harness.row import Row
from bench.harness.table import format_rate, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_latencies"]


def draw_latencies(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows, all of which have latencies, and write a PNG; nothing without rows."""
    draw_case_panels(rows, path, _draw_case)


def _draw_case(axes: Axes, case: str, rows: Sequence[Row]) -> None:
    """Draw the median as a point, a line to the 99th percentile, and a tick at the 99.9th."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    places = place_lines([row.case for row in rows])
    for place, row in zip(places, rows, strict=True):
        assert row.latency_us is not None
        percentiles = [row.latency_us[name] for name in ("p50", "p99", "p99.9")]
        draw_spread(axes, place, percentiles, colour_of(row))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_time(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{case}: p50 to p99, and p99.9")
    names = [f"{row.contestant}, {format_rate(row.records_per_s)}/s" for row in rows]
    label_lines(axes, places, names)

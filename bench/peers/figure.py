"""A panel for each case: a bar for each system, and its ratio to flinknet's best."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.figure import colour_of, draw_case_panels, label_lines, place_lines
from bench.harness.row import Row
from bench.harness.system import SUBJECT
from bench.harness.table import format_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_cases"]

COLUMNS = 2
ROOM_FOR_TEXT = 1.35


def draw_cases(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows of the family and write a PNG; nothing without rows."""
    draw_case_panels(rows, path, _draw_case, columns=COLUMNS)


def _draw_case(axes: Axes, case: str, rows: Sequence[Row]) -> None:
    """Draw a bar for each row, labelled with the ratio of flinknet's best to it."""
    round_trips = rows[0].latency_us is not None
    values = [row.latency_us["p50"] if row.latency_us else row.records_per_s for row in rows]
    own = [value for row, value in zip(rows, values, strict=True) if row.system == SUBJECT]
    best = min(own) if round_trips else max(own)
    places = place_lines([case] * len(rows))
    bars = axes.barh(places, values, height=0.8, color=[colour_of(row) for row in rows])
    write = _microseconds if round_trips else format_rate
    texts = [
        write(value) + ("" if row.system == SUBJECT else f"   {best / value:.2f}x")
        for row, value in zip(rows, values, strict=True)
    ]
    axes.bar_label(bars, texts, padding=4)
    axes.set_xlim(0, max(values) * ROOM_FOR_TEXT)
    axes.set_xticks([])
    axes.set_title(
        f"{case}: p50 of a round trip, and flinknet's over it"
        if round_trips
        else f"{case}: records/s, and flinknet's best over it"
    )
    label_lines(axes, places, [row.contestant for row in rows])


def _microseconds(value: float) -> str:
    return f"{value:,.0f} µs"

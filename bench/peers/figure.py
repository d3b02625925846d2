"""A panel for each case: a bar for each system, and how flinknet's best compares with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.figure import (
    PEER_COLOURS,
    SUBJECT_COLOURS,
    label_lines,
    open_panels,
    place_lines,
)
from bench.harness.row import Row
from bench.harness.table import SUBJECT, format_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_cases"]

COLUMNS = 2
ROOM_FOR_TEXT = 1.35


def draw_cases(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows of the family and write a PNG; none if there is nothing to draw."""
    cases: dict[str, list[Row]] = {}
    for row in rows:
        cases.setdefault(row.case, []).append(row)
    if not cases:
        return
    lines = max(len(each) for each in cases.values())
    with open_panels(path, len(cases), lines, columns=min(COLUMNS, len(cases))) as panels:
        for axes, (case, its_rows) in zip(panels, cases.items(), strict=True):
            _draw_case(axes, case, its_rows, lines)


def _draw_case(axes: Axes, case: str, rows: Sequence[Row], lines: int) -> None:
    """A bar as thick as in the panel with the most of them, which has so many lines."""
    round_trips = rows[0].latency_us is not None
    values = [row.latency_us["p50"] if row.latency_us else row.records_per_s for row in rows]
    own = [value for row, value in zip(rows, values, strict=True) if row.system == SUBJECT]
    best = min(own) if round_trips else max(own)
    places = place_lines([case] * len(rows))
    bars = axes.barh(places, values, height=0.8, color=[_colour(row) for row in rows])
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
    label_lines(axes, places, [f"{row.system} {row.variant}" for row in rows])
    axes.set_ylim(places[0] + lines - 0.2, places[0] - 0.8)


def _colour(row: Row) -> str:
    return SUBJECT_COLOURS[0] if row.system == SUBJECT else PEER_COLOURS[0]


def _microseconds(value: float) -> str:
    return f"{value:,.0f} µs"

"""Throughput and CPU against the number of channels.

Each buffer timeout has a line, and a cross for the skewed load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.channels.system import CHANNELS, FORMS, SKEW, TIMEOUTS_MS
from bench.harness.figure import PEER_COLOURS, SUBJECT_COLOURS, open_panels
from bench.harness.row import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_channels"]

COLOURS = dict(
    zip(
        TIMEOUTS_MS,
        (SUBJECT_COLOURS[1], SUBJECT_COLOURS[0], PEER_COLOURS[1], PEER_COLOURS[3]),
        strict=True,
    )
)
LINES = 12


def draw_channels(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows of the family and write a PNG."""
    from matplotlib.ticker import EngFormatter

    forms = [form for form in FORMS if any(row.variant.startswith(form) for row in rows)]
    with open_panels(path, 2 * len(forms), LINES, columns=2) as panels:
        for number, form in enumerate(forms):
            rates, costs = panels[2 * number : 2 * number + 2]
            _draw(rates, rows, form, lambda row: row.records_per_s)
            _draw(costs, rows, form, lambda row: row.cpu_s_per_million_records)
            rates.set_title(f"Records per second, {form}")
            rates.yaxis.set_major_formatter(EngFormatter())
            costs.set_title(f"CPU microseconds per record, {form}")
            costs.legend(frameon=False, title="buffer timeout", loc="lower center", ncols=3)


def _draw(axes: Axes, rows: Sequence[Row], form: str, value: Callable[[Row], float]) -> None:
    for timeout, colour in COLOURS.items():
        chosen = [row for row in rows if row.variant == f"{form}, {timeout}"]
        even = [row for row in chosen if row.case != SKEW]
        skewed = [row for row in chosen if row.case == SKEW]
        for drawn, style, name in ((even, "o-", timeout), (skewed, "x", f"{timeout}, skew")):
            if drawn:
                axes.plot(
                    [CHANNELS[row.case] for row in drawn],
                    [value(row) for row in drawn],
                    style,
                    color=colour,
                    label=name,
                    markersize=8,
                )
    axes.set_xscale("log")
    axes.set_xlabel("channels of the connection")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, axis="y")
    axes.set_xticks(list(CHANNELS.values()), [f"{channels:,}" for channels in CHANNELS.values()])

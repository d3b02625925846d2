"""Throughput and latency over the buffer timeouts, with a line for each mode of flow control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.figure import PEER_COLOURS, SUBJECT_COLOURS, open_panels
from bench.harness.row import Row
from bench.timeouts.system import CREDIT, split

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_timeouts"]

LINES_HIGH = 14
COLOURS = dict(zip(CREDIT, (SUBJECT_COLOURS[0], PEER_COLOURS[1]), strict=True))
STYLES = {"p50": "o-", "p99": "^--"}


def draw_timeouts(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows and write a PNG."""
    by_mode: dict[str, list[Row]] = {}
    for row in rows:
        by_mode.setdefault(split(row.variant)[1], []).append(row)
    with open_panels(path, 2, LINES_HIGH) as panels:
        for axes in panels:
            labels = [split(row.variant)[0] for row in next(iter(by_mode.values()))]
            axes.set_xticks(range(len(labels)), labels)
            axes.set_xlabel("buffer timeout")
            axes.grid(axis="x", visible=False)
            axes.grid(axis="y", visible=True)
        _draw_throughput(panels[0], by_mode)
        _draw_latency(panels[1], by_mode)


def _draw_throughput(axes: Axes, by_mode: Mapping[str, Sequence[Row]]) -> None:
    """Draw the medians, and the range of the runs."""
    from matplotlib.ticker import EngFormatter

    for credit, rows in by_mode.items():
        colour = COLOURS[credit]
        places = range(len(rows))
        axes.plot(places, [row.records_per_s for row in rows], "o-", color=colour, label=credit)
        axes.vlines(
            places,
            [min(row.runs) for row in rows],
            [max(row.runs) for row in rows],
            color=colour,
        )
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.set_title("Records per second, as fast as they go")
    axes.legend(frameon=False)


def _draw_latency(axes: Axes, by_mode: Mapping[str, Sequence[Row]]) -> None:
    """Draw two percentiles."""
    for credit, rows in by_mode.items():
        for percentile, style in STYLES.items():
            values = [row.latency_us[percentile] / 1000 for row in rows if row.latency_us]
            axes.plot(
                range(len(values)),
                values,
                style,
                color=COLOURS[credit],
                label=f"{percentile}, {credit}",
            )
    axes.set_yscale("log")
    axes.set_title("Latency at a tenth of the maximum, in ms")
    axes.legend(frameon=False)

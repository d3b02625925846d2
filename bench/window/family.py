"""The family ``window`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench.harness.case import Case
from bench.harness.comparison import ComparingFamily
from bench.harness.figure import INK, PEER_COLOURS, SUBJECT_COLOURS, open_panels
from bench.harness.pinning import Pinning
from bench.harness.row import Row, ratio
from bench.harness.system import SUBJECT, Contestant
from bench.harness.table import Column, print_table
from bench.harness.trial import Measurement, Plan
from bench.window.link import measure_over_link
from bench.window.system import CASES, DELAYS_S, LINK, SYSTEM, WINDOWS, window_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["WindowFamily", "share_of_link", "share_of_most", "share_of_product"]

COLOURS = (*SUBJECT_COLOURS[:2], *(PEER_COLOURS[number] for number in (1, 3, 2, 4)))
LINES = 14

KEY = (
    "window: exclusive + floating buffers of 32 KiB. MB/s: 10^6 bytes of records, median of the "
    "interleaved runs; low, high: the slowest and the fastest run. round trip: of one byte over "
    "the idle link. / BDP: the window over the link's bandwidth-delay product, which is its MB/s "
    "times the round trip. / link: MB/s over the link's. / most: over one window for each round "
    "trip, or over the link's if that is less."
)


class WindowFamily(ComparingFamily):
    """One channel over a relay that delays every byte."""

    name = "window"
    summary = "throughput against the credit window and the round-trip time of the link"

    def __init__(self) -> None:
        super().__init__(CASES, SYSTEM, (LINK,), run=_run)

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, and its share of the link's."""
        columns = (
            Column("round\ntrip ms", lambda row: f"{row.parameters['round_trip_ms']:.2f}"),
            Column("MB/s", lambda row: f"{row.mb_per_s:,.0f}"),
            Column("low", lambda row: f"{_megabytes(row, min(row.runs)):,.0f}"),
            Column("high", lambda row: f"{_megabytes(row, max(row.runs)):,.0f}"),
            Column("window\nKiB", _format_window),
            Column("/ BDP", partial(_format, share_of_product, rows)),
            Column("/ link", partial(_format, share_of_link, rows), highlight=True),
            Column("/ most", partial(_format, share_of_most, rows)),
        )
        print_table(rows, columns, KEY, console, name="window", label=_label)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw throughput against the round trip, and the share of the link against the window."""
        with open_panels(path, 2, LINES) as (rates, shares):
            _draw_rates(rates, rows)
            _draw_shares(shares, rows)


def share_of_link(rows: Sequence[Row], row: Row) -> float | None:
    """Return the throughput over the link's; None for the link itself, or without its row."""
    link = _link(rows, row)
    return ratio(row, link) if link is not None else None


def share_of_product(rows: Sequence[Row], row: Row) -> float | None:
    """Return the window over the link's bandwidth-delay product; None as in ``share_of_link``."""
    link = _link(rows, row)
    if link is None:
        return None
    product_bytes = link.mb_per_s * 1e6 * row.parameters["round_trip_ms"] / 1000
    share: float = window_bytes(WINDOWS[row.variant]) / product_bytes
    return share


def share_of_most(rows: Sequence[Row], row: Row) -> float | None:
    """Return the throughput over the maximum that the window and the link allow."""
    share, product = share_of_link(rows, row), share_of_product(rows, row)
    return share / min(1.0, product) if share is not None and product is not None else None


def _run(contestant: Contestant, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    return measure_over_link(DELAYS_S[case.name], contestant, case, plan, pinning)


def _link(rows: Sequence[Row], row: Row) -> Row | None:
    if row.system != SUBJECT:
        return None
    return next(
        (other for other in rows if (other.case, other.system) == (row.case, LINK.name)), None
    )


def _megabytes(row: Row, records_per_s: float) -> float:
    return records_per_s * row.mb_per_s / row.records_per_s


def _label(row: Row) -> str:
    return row.variant if row.system == SUBJECT else "the link itself"


def _format_window(row: Row) -> str:
    return f"{window_bytes(WINDOWS[row.variant]) >> 10:,}" if row.system == SUBJECT else ""


def _format(
    share: Callable[[Sequence[Row], Row], float | None], rows: Sequence[Row], row: Row
) -> str:
    value = share(rows, row)
    return "" if value is None else f"{value:.3g}"


def _draw_rates(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw a line for each window, and one for the link."""
    for label in dict.fromkeys(map(_label, rows)):
        drawn = [row for row in rows if _label(row) == label]
        axes.plot(
            [row.parameters["round_trip_ms"] for row in drawn],
            [row.mb_per_s for row in drawn],
            "o-",
            color=_colour(drawn[0]),
            label=label,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("round trip in ms")
    axes.grid(visible=True, axis="y")
    axes.legend(frameon=False, title="exclusive + floating buffers")
    axes.set_title("MB per second")


def _draw_shares(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw a point for each window and delay, and the line that a window cannot exceed."""
    for row in rows:
        share, product = share_of_link(rows, row), share_of_product(rows, row)
        if share is not None and product is not None:
            axes.plot(product, share, "o", color=_colour(row), markersize=8)
    axes.plot([0.01, 1, 100], [0.01, 1, 1], color=INK, linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("window over the link's bandwidth-delay product")
    axes.grid(visible=True, axis="y")
    axes.set_title("Throughput over the link's, and the most that a window allows")


def _colour(row: Row) -> str:
    return COLOURS[list(WINDOWS).index(row.variant)] if row.system == SUBJECT else INK

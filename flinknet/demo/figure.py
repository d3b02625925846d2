"""The result as one figure: throughput over time, latency distribution, load per channel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flinknet.demo.measurement import INTERVAL_NS
from flinknet.demo.report import format_latency
from flinknet.demo.result import DemoResult, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

BINS_PER_DECADE = 24
"""Resolution of the latency panel."""

LABELLED_SUBTASKS_MAX = 8
"""Maximum number of keyed subtasks with labels; more have no space for them."""

INTERVAL_S = INTERVAL_NS / 1e9
WIDTH_INCHES, HEIGHT_INCHES, DOTS_PER_INCH = 13.0, 8.6, 130

INK, MUTED, GRID = "#1f2933", "#6b7785", "#e4e8ec"
TEXT_GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
"""Background of text that a line may cross."""
SATURATION_COLOUR, OPEN_LOOP_COLOUR = "#c8cfd6", "#2a6f97"

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 24,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "font.size": 10,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


def draw(result: DemoResult, path: Path) -> None:
    """Draw the result and write it as PNG."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, wspace=0.04, hspace=0.04)
        figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout=layout)
        FigureCanvasAgg(figure)
        figure.suptitle(_headline(result), x=0.012, ha="left", fontsize=14, fontweight="bold")
        grid = figure.add_gridspec(2, 2)
        saturation = figure.add_subplot(grid[0, 0])
        open_loop = figure.add_subplot(grid[0, 1], sharey=saturation)
        _draw_throughput(saturation, result, result.saturation)
        _draw_throughput(open_loop, result, result.open_loop)
        _draw_latency(figure.add_subplot(grid[1, 0]), result)
        _draw_load(figure.add_subplot(grid[1, 1]), result)
        figure.savefig(path, dpi=DOTS_PER_INCH)


def _headline(result: DemoResult) -> str:
    rate, latency = result.saturation.figures.records_per_s, result.open_loop.figures.latency_us
    in_columns = result.columns.figures.records_per_s
    return (
        f"flinknet: {rate / 1e6:.2f} M records/s, in columns {in_columns / 1e6:.1f} M; "
        f"at {result.parameters.load:.0%} of the first, "
        f"latency p50 {format_latency(latency.p50_us)}, p99 {format_latency(latency.p99_us)}, "
        f"p99.9 {format_latency(latency.p999_us)}"
    )


def _subtask_colours(count: int) -> list[Any]:
    import matplotlib as mpl

    colours = mpl.colormaps["viridis"](np.linspace(0.15, 0.82, count))
    return list(colours)


def _pale(colour: Any) -> Any:
    # mixed with white, because with alpha the grid would show through
    return 0.62 + 0.38 * np.asarray(colour)


def _subtitle(axes: Axes, text: str) -> None:
    axes.annotate(
        text,
        (0, 1),
        (0, 8),
        xycoords="axes fraction",
        textcoords="offset points",
        color=MUTED,
        fontsize=9,
    )


def _rates(run: Run) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return interval edges in seconds, and records/s per keyed subtask and interval.

    The first and the last interval are shorter than the others; their rates refer to their actual
    lengths.
    """
    figures = run.figures
    first = min(since + lasted for points in figures.throughput for since, lasted, _ in points[:1])
    # position of the clock's intervals relative to the start of the run
    offset = first % INTERVAL_S
    count = int(np.ceil((figures.seconds - offset) / INTERVAL_S - 1e-6)) + 1
    edges = np.clip(offset + INTERVAL_S * np.arange(-1, count), 0.0, figures.seconds)
    rates = np.zeros((len(figures.throughput), count))
    for subtask, points in enumerate(figures.throughput):
        for since, lasted, records in points:
            middle = since + lasted / 2
            interval = min(int(np.searchsorted(edges, middle, side="right")) - 1, count - 1)
            rates[subtask, interval] += records
    widths = np.diff(edges)
    return edges, rates / np.where(widths > 0, widths, 1.0)


def _draw_throughput(axes: Axes, result: DemoResult, run: Run) -> None:
    edges, rates = _rates(run)
    subtasks = len(rates)
    below = np.zeros(rates.shape[1])
    for subtask, colour in enumerate(_subtask_colours(subtasks)):
        above = below + rates[subtask]
        axes.stairs(
            above / 1e6,
            edges,
            baseline=below / 1e6,
            fill=True,
            color=colour,
            label=f"keyed subtask {subtask}",
        )
        below = above
    axes.set_xlim(0, edges[-1])
    axes.set_xlabel("seconds since the first record")
    axes.set_ylabel("million records/s")
    taken = run.figures.records_per_s
    if run.offered_records_per_s is None:
        axes.set_title("Throughput at saturation")
        _subtitle(axes, f"without a limit: {taken:,.0f} records/s on average (line)")
        _mark_rate(axes, taken)
        axes.set_ylim(0, 1.12 * max(below.max(), 1.0) / 1e6)
    else:
        offered = run.offered_records_per_s
        axes.set_title(f"Throughput in the open loop, at {result.parameters.load:.0%}")
        _subtitle(
            axes, f"scheduled: {offered:,.0f} records/s (line); taken: {taken:,.0f} records/s"
        )
        _mark_rate(axes, offered)
        if subtasks <= LABELLED_SUBTASKS_MAX:
            axes.legend(loc="upper right", frameon=False, ncols=2, reverse=True, fontsize=9)


def _mark_rate(axes: Axes, records_per_s: float) -> None:
    axes.axhline(records_per_s / 1e6, color=INK, linewidth=1.2, linestyle=(0, (5, 3)))


def _draw_latency(axes: Axes, result: DemoResult) -> None:
    from matplotlib.ticker import FuncFormatter

    runs = (
        (result.saturation, SATURATION_COLOUR, 0.75, "saturation (time in full buffers)"),
        (result.open_loop, OPEN_LOOP_COLOUR, 0.85, "open loop (from the intended send time)"),
    )
    lowest = min(max(run.figures.distribution[0][0], 1.0) for run, *_ in runs)
    highest = max(run.figures.distribution[-1][0] for run, *_ in runs)
    decades = np.floor(np.log10(lowest)), np.ceil(np.log10(highest * 1.01))
    edges = np.logspace(*decades, int((decades[1] - decades[0]) * BINS_PER_DECADE) + 1)
    for run, colour, alpha, label in runs:
        uppers, records = np.array(run.figures.distribution).T
        density, _ = np.histogram(np.maximum(uppers, edges[0]), edges, weights=records)
        axes.stairs(
            100 * density / records.sum(), edges, fill=True, color=colour, alpha=alpha, label=label
        )
    latency = result.open_loop.figures.latency_us
    for level, (name, value) in enumerate(
        (
            ("p50", latency.p50_us),
            ("p99", latency.p99_us),
            ("p99.9", latency.p999_us),
            ("max", latency.max_us),
        )
    ):
        axes.axvline(value, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        far_right = np.log10(value) > 0.25 * decades[0] + 0.75 * decades[1]
        axes.annotate(
            f"{name} {format_latency(value)}",
            (value, 0.97 - 0.075 * level),
            (-4 if far_right else 4, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right" if far_right else "left",
            va="top",
            fontsize=9,
            zorder=4,
            bbox=TEXT_GROUND,
        )
    axes.set_xscale("log")
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axes.set_ylim(0, axes.get_ylim()[1] * 1.3)
    axes.set_xlabel("latency, log scale (lines: the open-loop run, which measures latency)")
    axes.set_ylabel("% of records")
    axes.set_title("Latency from source to keyed operator")
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.012, 1.0),
        borderaxespad=0,
        frameon=False,
        ncols=2,
        fontsize=9,
        labelcolor=MUTED,
    )


def _tick(microseconds: float) -> str:
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if microseconds >= factor:
            return f"{microseconds / factor:g} {unit}"
    return f"{microseconds * 1e3:g} ns"


def _draw_load(axes: Axes, result: DemoResult) -> None:
    figures = result.open_loop.figures
    subtasks, sources = len(figures.throughput), result.parameters.workload.sources
    load = np.zeros((sources, subtasks))
    local = np.zeros((sources, subtasks), bool)
    for channel in figures.channels:
        load[channel.source, channel.subtask] = channel.records
        local[channel.source, channel.subtask] = channel.local
    colours = _subtask_colours(subtasks)
    positions, below = np.arange(subtasks), np.zeros(subtasks)
    # in a smaller block, the text would be taller than the block
    label_records_min = 0.05 * load.sum(axis=0).max()
    for source in range(sources):
        shown = [_pale(colour) if local[source, k] else colour for k, colour in enumerate(colours)]
        axes.bar(
            positions,
            load[source] / 1e3,
            0.72,
            below / 1e3,
            color=shown,
            edgecolor="white",
            linewidth=1.5,
        )
        for subtask in positions[load[source] > label_records_min]:
            axes.annotate(
                f"source {source}" if subtasks <= LABELLED_SUBTASKS_MAX else str(source),
                (subtask, (below[subtask] + load[source, subtask] / 2) / 1e3),
                ha="center",
                va="center",
                fontsize=8,
                color=INK if local[source, subtask] else "white",
            )
        below += load[source]
    total = load.sum()
    for subtask in positions:
        axes.annotate(
            f"{below[subtask] / total:.{1 if subtasks <= LABELLED_SUBTASKS_MAX else 0}%}",
            (subtask, below[subtask] / 1e3),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontweight="bold",
            zorder=4,
            bbox=TEXT_GROUND,
        )
    axes.axhline(
        total / subtasks / 1e3, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), label="even share"
    )
    axes.set_xticks(positions, [str(subtask) for subtask in positions])
    axes.set_ylim(0, 1.25 * below.max() / 1e3)
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("keyed subtask (each block: one channel; pale: local, within the worker)")
    axes.set_ylabel("thousand records")
    axes.set_title("Load per channel")
    _subtitle(
        axes, "naturally skewed: routes differ in traffic, and each goes to one keyed subtask"
    )
    axes.legend(loc="upper right", frameon=False, fontsize=9)

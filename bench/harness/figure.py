"""Rows as a figure: throughput with its spread, and bars of flinknet's ratio to each peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import cycle, islice
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from bench.harness.row import Row, ratio
from bench.harness.system import SUBJECT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

__all__ = [
    "INK",
    "PEER_COLOURS",
    "SUBJECT_COLOURS",
    "TEXT_GROUND",
    "colour_of",
    "draw_bar_panel",
    "draw_case_panels",
    "draw_ratios",
    "draw_spread",
    "fit_titles",
    "label_lines",
    "open_panels",
    "place_lines",
]

INK, MUTED, GRID = "#1f2933", "#6b7785", "#e4e8ec"
SUBJECT_COLOURS = ("#2a6f97", "#61a5c2", "#a9d6e5")
PEER_COLOURS = ("#8d99ae", "#b08968", "#6c757d", "#a3a380", "#9d8189")
PALETTE_COLOURS = 48
"""Number of colours that covers a figure's few colours and the shades at their edges."""

TEXT_GROUND = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
ROOM_FOR_CHARACTER = 0.035
"""Share of the bars' width to reserve beside the longest bar, per character of its label."""
TITLE_GAP_DOTS = 12
"""Space between a title and the next panel."""
LOG_RANGE_FINE = 30
"""Largest range with ticks at 1, 2 and 5; over a larger range they would overlap."""

WIDTH_INCHES, INCHES_PER_LINE, DOTS_PER_INCH = 13.0, 0.24, 130

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "font.size": 10,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "ytick.left": False,
}


def draw_ratios(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows of one family and write a PNG."""
    pairs = [
        (own, peer)
        for peer in rows
        if peer.system != SUBJECT
        for own in rows
        if own.system == SUBJECT and own.case == peer.case
    ]
    lines = max(len(rows), len(pairs)) + len({row.case for row in rows})
    with open_panels(path, 2 if pairs else 1, lines) as panels:
        _draw_throughput(panels[0], rows)
        if pairs:
            _draw_ratios(panels[1], pairs)


@contextmanager
def open_panels(
    path: Path, count: int, lines: int, *, columns: int | None = None
) -> Iterator[Sequence[Axes]]:
    """Yield ``count`` panels side by side or in ``columns``, then write the PNG.

    Each panel is high enough for ``lines`` lines.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        across = columns or count
        down = ceil(count / across)
        size = (WIDTH_INCHES / 2 * across, (1.3 + INCHES_PER_LINE * lines) * down)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield [figure.add_subplot(down, across, number + 1) for number in range(count)]
        _write_png(figure, path)


def _write_png(figure: Figure, path: Path) -> None:
    """Write a figure with a palette, which takes a third of the size of true colours."""
    from PIL import Image

    fit_titles(figure)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=DOTS_PER_INCH)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(PALETTE_COLOURS).save(path, format="PNG", optimize=True)


def fit_titles(figure: Figure) -> None:
    """Wrap titles that are wider than the space of their panel."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        cell = axes.get_subplotspec()
        text = axes.get_title(loc="left")
        if cell is None or not text:
            continue
        columns = cell.get_gridspec().ncols
        right = figure.bbox.width * (cell.colspan.start + 1) / columns - TITLE_GAP_DOTS
        left = axes.get_window_extent().x0
        width = _title_of(axes, text).get_window_extent().width
        if left + width > right:
            characters = int(len(text) * (right - left) / width)
            axes.set_title(fill(text, max(characters, 10)))


def _title_of(axes: Axes, text: str) -> Text:
    """Return the artist that draws the title; axes have no public name for it."""
    from matplotlib.text import Text

    texts = (one for one in axes.get_children() if isinstance(one, Text))
    return next(one for one in texts if one.get_text() == text)


def draw_case_panels(
    rows: Sequence[Row],
    path: Path,
    draw: Callable[[Axes, str, Sequence[Row]], None],
    *,
    columns: int | None = None,
) -> None:
    """Draw a panel for each case with ``draw``, and write the PNG; nothing without rows.

    The lines are equally thick in all panels.
    """
    cases: dict[str, list[Row]] = {}
    for row in rows:
        cases.setdefault(row.case, []).append(row)
    if not cases:
        return
    lines = max(len(each) for each in cases.values())
    across = min(columns or len(cases), len(cases))
    with open_panels(path, len(cases), lines, columns=across) as panels:
        for axes, (case, its_rows) in zip(panels, cases.items(), strict=True):
            draw(axes, case, its_rows)
            top = axes.get_ylim()[1]
            axes.set_ylim(top + lines + 0.6, top)


def _draw_throughput(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw a point for each median and a line from the slowest to the fastest run."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    colours = _colours(rows)
    places = place_lines([row.case for row in rows])
    for place, row in zip(places, rows, strict=True):
        colour = colours[row.system, row.variant]
        axes.plot([min(row.runs), max(row.runs)], [place, place], color=colour, linewidth=3)
        axes.plot(row.records_per_s, place, "o", color=colour, markersize=7)
    axes.set_xscale("log")
    ends = [end for row in rows for end in (min(row.runs), max(row.runs))]
    is_fine = max(ends) <= LOG_RANGE_FINE * min(ends)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_fine else (1,)))
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title("Records per second: median, lowest to highest run")
    label_lines(axes, places, [f"{row.case}  {row.contestant}" for row in rows])


def _draw_ratios(axes: Axes, pairs: Sequence[tuple[Row, Row]]) -> None:
    """Draw a bar for each variant of flinknet against each variant of a peer."""
    own = [own for own, _ in pairs]
    colours = _colours(own)
    draw_bar_panel(
        axes,
        "Times the other system's records per second",
        own,
        [ratio(*pair) for pair in pairs],
        "{:.2f}x".format,
        colours=[colours[row.system, row.variant] for row in own],
        labels=[f"{own.case}  {own.variant} / {peer.contestant}" for own, peer in pairs],
        even=1.0,
    )


def draw_bar_panel(
    axes: Axes,
    title: str,
    rows: Sequence[Row],
    values: Sequence[float],
    text: Callable[[float], str],
    *,
    colours: Sequence[str] = SUBJECT_COLOURS[:1],
    labels: Sequence[str] | None = None,
    even: float | None = None,
) -> None:
    """Fill a panel with a bar for each row, labelled with its value formatted by ``text``.

    The rows take turns with the ``colours``. ``labels`` default to the cases and variants. A line
    marks the value ``even``.
    """
    places = place_lines([row.case for row in rows])
    bars = axes.barh(places, values, height=0.8, color=list(islice(cycle(colours), len(rows))))
    texts = [text(value) for value in values]
    # The labels are in front of the line, which would strike them through otherwise.
    axes.bar_label(bars, texts, padding=4, zorder=4, bbox=TEXT_GROUND)
    if even is not None:
        axes.axvline(even, color=INK, linewidth=1)
    room = 1 + ROOM_FOR_CHARACTER * max(map(len, texts), default=0)
    axes.set_xlim(0, max([even or 0.0, *values]) * room)
    axes.set_title(title)
    label_lines(axes, places, labels or [f"{row.case}  {row.variant}" for row in rows])


def draw_spread(axes: Axes, place: float, percentiles: Sequence[float], colour: str) -> None:
    """Draw a point at the first of three percentiles, a line to the second, a tick at the third."""
    first, second, third = percentiles
    axes.plot([first, second], [place, place], color=colour, linewidth=3)
    axes.plot(first, place, "o", color=colour, markersize=7)
    axes.plot(third, place, "|", color=colour, markersize=9)


def place_lines(cases: Sequence[str]) -> list[float]:
    """Return the vertical positions of the lines, with a gap between cases."""
    places: list[float] = []
    for number, case in enumerate(cases):
        gap = 1.0 if number == 0 or cases[number - 1] == case else 1.7
        places.append((places[-1] if places else 0.0) + gap)
    return places


def label_lines(axes: Axes, places: Sequence[float], labels: Sequence[str]) -> None:
    """Label the lines at their positions."""
    axes.set_yticks(places, labels)
    axes.set_ylim(max(places) + 0.8, min(places) - 0.8)


def colour_of(row: Row) -> str:
    """Return the first shade of flinknet's colour, or of the peers'."""
    return (SUBJECT_COLOURS if row.system == SUBJECT else PEER_COLOURS)[0]


def _colours(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return shades of one colour for flinknet's variants, and other colours for the peers."""
    colours: dict[tuple[str, str], str] = {}
    for own, palette in ((True, SUBJECT_COLOURS), (False, PEER_COLOURS)):
        names = dict.fromkeys(
            (row.system, row.variant) for row in rows if (row.system == SUBJECT) == own
        )
        colours |= {name: palette[at % len(palette)] for at, name in enumerate(names)}
    return colours

"""Rows as a readable table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from rich import box
from rich.console import Console
from rich.table import Table

from bench.harness.row import Row, ratio
from bench.harness.system import SUBJECT

__all__ = [
    "CPU",
    "KEPT",
    "RATE",
    "RATE_COLUMNS",
    "Column",
    "format_rate",
    "format_time",
    "format_times",
    "latency_columns",
    "print_rows",
    "print_table",
]

KEY = (
    "records/s: median of the interleaved runs, on the consumer's clock; low, high: the slowest "
    "and the fastest run. MB/s: 10^6 bytes of records as msgpack. CPU s/M: user and system seconds "
    "of both processes per million records. record / row, bulk / row: the median records/s of that "
    "variant of flinknet over the row's."
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column; ``cell`` formats its value for a row."""

    heading: str
    cell: Callable[[Row], str]
    highlight: bool = False


RATE = Column("records/s", lambda row: format_rate(row.records_per_s))
"""The median records per second."""

RATE_COLUMNS = (
    RATE,
    Column("low", lambda row: format_rate(min(row.runs))),
    Column("high", lambda row: format_rate(max(row.runs))),
)
"""The median with the slowest and the fastest run."""

CPU = Column("CPU s/M", lambda row: _format_cpu(row.cpu_s_per_million_records))
"""CPU seconds of both processes per million records."""

KEPT = Column(
    "kept", lambda row: f"{row.parameters['kept']:.1%}" if "kept" in row.parameters else ""
)
"""The share of an open-loop load that came through in time."""


def print_table(
    rows: Sequence[Row],
    columns: Sequence[Column],
    key: str,
    console: Console,
    *,
    name: str = "variant",
    label: Callable[[Row], str] = attrgetter("variant"),
) -> None:
    """Print a table of rows, case by case, with a note whether they are verified.

    The ``label`` of a row is in the column ``name``; ``key`` explains the columns.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for heading in ("case", name):
        table.add_column(heading, no_wrap=True)
    for column in columns:
        style = "bold cyan" if column.highlight else None
        table.add_column(column.heading, justify="right", no_wrap=True, style=style)
    table.add_column("veri-\nfied", no_wrap=True)
    for number, row in enumerate(rows):
        first = number == 0 or rows[number - 1].case != row.case
        last = number + 1 == len(rows) or rows[number + 1].case != row.case
        table.add_row(
            row.case if first else "",
            label(row),
            *(column.cell(row) for column in columns),
            "yes" if row.verified else "[bold red]NO[/]",
            end_section=last,
        )
    console.print(table)
    console.print(key, style="dim", highlight=False)


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """Print all rows, case by case, with flinknet's ratio to each other system."""
    compared = any(row.system != SUBJECT for row in rows)
    variants = dict.fromkeys(row.variant for row in rows if compared and row.system == SUBJECT)
    columns = [
        *RATE_COLUMNS,
        Column("MB/s", lambda row: f"{row.mb_per_s:,.1f}"),
        CPU,
        *(_ratio_column(rows, variant) for variant in variants),
    ]
    print_table(
        rows,
        columns,
        KEY,
        console,
        name="system",
        label=attrgetter("contestant"),
    )


def _format_cpu(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds < 1000 else f"{seconds:,.0f}"


def format_rate(per_second: float) -> str:
    """Return three significant digits, with a letter for thousands or millions."""
    scales = ((999.5, 1.0, ""), (999_500.0, 1e3, "k"), (float("inf"), 1e6, "M"))
    return _three_digits(per_second, scales)


def format_times(factor: float) -> str:
    """Return a factor with a unit sign, as "1.50x"."""
    return f"{factor:.2f}x" if factor < 100 else f"{factor:,.0f}x"


def _three_digits(value: float, scales: Sequence[tuple[float, float, str]]) -> str:
    _, factor, unit = next(scale for scale in scales if value < scale[0])
    value /= factor
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f} {unit}".rstrip()


def format_time(microseconds: float) -> str:
    """Return three significant digits, with the unit that fits."""
    scales = ((999.5, 1.0, "µs"), (999_500.0, 1e3, "ms"), (float("inf"), 1e6, "s"))
    return _three_digits(microseconds, scales)


def latency_columns(*percentiles: str) -> list[Column]:
    """Return a column for each percentile; empty where latency was not measured."""

    def cell(percentile: str, row: Row) -> str:
        return format_time(row.latency_us[percentile]) if row.latency_us else ""

    return [Column(name, partial(cell, name)) for name in percentiles]


def _ratio_column(rows: Sequence[Row], variant: str) -> Column:
    """Return a column with flinknet's records/s in a variant as a multiple of the row's."""

    def cell(row: Row) -> str:
        if row.system == SUBJECT:
            return ""
        for own in rows:
            if (own.case, own.system, own.variant) == (row.case, SUBJECT, variant):
                return format_times(ratio(own, row))
        return ""

    heading = variant.replace("-", "-\n").replace(" ", "\n")
    return Column(f"{heading}\n/ row", cell, highlight=True)

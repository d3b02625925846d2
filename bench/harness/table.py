"""Rows as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from bench.harness.row import Row, ratio

__all__ = ["SUBJECT", "format_rate", "print_rows"]

SUBJECT = "flinknet"
"""The system whose ratios to the others are shown."""

KEY = (
    "records/s: median of the interleaved runs, on the consumer's clock; low, high: the slowest "
    "and the fastest run. MB/s: 10^6 bytes of records as msgpack. CPU s/M: user and system seconds "
    "of both processes per million records. record / row, bulk / row: the median records/s of that "
    "variant of flinknet over the row's."
)


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """Print all rows, case by case, with flinknet's ratio to each other system."""
    compared = any(row.system != SUBJECT for row in rows)
    variants = dict.fromkeys(row.variant for row in rows if compared and row.system == SUBJECT)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for heading in ("case", "system"):
        table.add_column(heading, no_wrap=True)
    for heading in ("records/s", "low", "high", "MB/s", "CPU s/M"):
        table.add_column(heading, justify="right", no_wrap=True)
    for variant in variants:
        table.add_column(f"{variant}\n/ row", justify="right", no_wrap=True, style="bold cyan")
    table.add_column("verified", no_wrap=True)
    for number, row in enumerate(rows):
        first = number == 0 or rows[number - 1].case != row.case
        last = number + 1 == len(rows) or rows[number + 1].case != row.case
        table.add_row(
            row.case if first else "",
            f"{row.system} {row.variant}",
            *_figures(row),
            *(_ratio(rows, row, variant) for variant in variants),
            "yes" if row.verified else "[bold red]NO[/]",
            end_section=last,
        )
    console.print(table)
    console.print(KEY, style="dim", highlight=False)


def format_rate(per_second: float) -> str:
    """Return three significant digits, with a letter for thousands or millions."""
    scales = ((999.5, 1.0, ""), (999_500.0, 1e3, " k"), (float("inf"), 1e6, " M"))
    _, factor, letter = next(scale for scale in scales if per_second < scale[0])
    value = per_second / factor
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f}{letter}"


def _figures(row: Row) -> list[str]:
    rates = (row.records_per_s, min(row.runs), max(row.runs))
    cpu = f"{row.cpu_s_per_million_records:.3g}"
    return [*(format_rate(rate) for rate in rates), f"{row.mb_per_s:,.1f}", cpu]


def _ratio(rows: Sequence[Row], row: Row, variant: str) -> str:
    if row.system == SUBJECT:
        return ""
    for own in rows:
        if (own.case, own.system, own.variant) == (row.case, SUBJECT, variant):
            return f"{ratio(own, row):.2f}x"
    return ""

"""The family ``credit-cost`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.credit_cost.system import (
    SYSTEM,
    TLS_WITH_CREDIT,
    TLS_WITHOUT_CREDIT,
    WITH_CHECKSUMS,
    WITH_CREDIT,
    WITH_SECRET,
    WITHOUT_CREDIT,
)
from bench.exchange.cases import CASES as EXCHANGE_CASES
from bench.harness.comparison import ComparingFamily
from bench.harness.figure import draw_bar_panel, open_panels
from bench.harness.row import Row, ratio
from bench.harness.table import CPU, RATE_COLUMNS, Column, print_table

__all__ = ["CreditCostFamily", "cost_ratio"]

CASES = tuple(case for case in EXCHANGE_CASES if case.name in ("tuple", "bytes-1k", "bytes-32k"))

KEY = (
    "records/s: median of the interleaved runs, on the consumer's clock; low, high: the slowest "
    "and the fastest run. CPU s/M: user and system seconds of both processes per million records. "
    "on / off: the median records/s with credit over the one without, and with checksums, a secret "
    "or TLS over the one without them."
)


COMPARED_WITH = {
    WITH_CREDIT: WITHOUT_CREDIT,
    WITH_CHECKSUMS: WITH_CREDIT,
    WITH_SECRET: WITH_CREDIT,
    TLS_WITH_CREDIT: WITH_CREDIT,
    TLS_WITHOUT_CREDIT: WITHOUT_CREDIT,
}
"""Maps a feature of a variant to the feature that it is compared with."""


class CreditCostFamily(ComparingFamily):
    """Cases of the family ``exchange`` with and without credit, checksums, a secret and TLS."""

    name = "credit-cost"
    summary = "throughput with credit flow control, checksums or TLS, over throughput without"

    def __init__(self) -> None:
        super().__init__(CASES, SYSTEM)

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, and the ratio in each row with a feature."""
        columns = (
            *RATE_COLUMNS,
            CPU,
            Column("on / off", partial(_format_ratio, rows), highlight=True),
        )
        print_table(rows, columns, KEY, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the ratios."""
        ratios = [(row, value) for row in rows if (value := cost_ratio(rows, row)) is not None]
        with open_panels(path, 1, len(ratios) + len(CASES)) as (axes,):
            draw_bar_panel(
                axes,
                "Records per second with credit, or checksums, over without",
                [row for row, _ in ratios],
                [value for _, value in ratios],
                "{:.3f}".format,
                even=1.0,
            )


def cost_ratio(rows: Sequence[Row], row: Row) -> float | None:
    """Return a row's rate with credit, checksums, a secret or TLS over the rate without.

    Returns None for any other row.
    """
    mode, _, has = row.variant.partition(", ")
    for other in rows:
        if (other.case, other.variant) == (row.case, f"{mode}, {COMPARED_WITH.get(has)}"):
            return ratio(row, other)
    return None


def _format_ratio(rows: Sequence[Row], row: Row) -> str:
    value = cost_ratio(rows, row)
    return "" if value is None else f"{value:.3f}"

"""The family ``exchange`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.exchange.cases import CASES
from bench.exchange.system import SYSTEM
from bench.harness.comparison import ComparingFamily
from bench.harness.figure import draw_ratios
from bench.harness.row import Row
from bench.harness.table import print_rows
from bench.peers import PEERS

__all__ = ["ExchangeFamily"]


class ExchangeFamily(ComparingFamily):
    """One producer process, one consumer process, TCP over loopback between them."""

    name = "exchange"
    summary = "records from one process to another, as fast as they go"

    def __init__(self) -> None:
        super().__init__(CASES, SYSTEM, PEERS)

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, and the ratios to the peers."""
        print_rows(rows, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw throughput, and the ratios to the peers."""
        draw_ratios(rows, path)

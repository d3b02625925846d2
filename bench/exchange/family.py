"""What the command line sees of the family ``exchange``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.exchange import flinknet_system
from bench.exchange.cases import CASES
from bench.harness.comparison import compare
from bench.harness.family import Progress, Selection
from bench.harness.figure import draw_ratios
from bench.harness.row import Row
from bench.harness.table import print_rows
from bench.peers import PEERS

__all__ = ["ExchangeFamily"]


class ExchangeFamily:
    """One producer process, one consumer process, TCP over loopback between them."""

    name = "exchange"
    summary = "records from one process to another, as fast as they go"

    def __init__(self) -> None:
        self.cases = {case.name: case.summary for case in CASES}
        self.systems = {system.name: system.summary for system in PEERS}

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure flinknet and the chosen peers."""
        cases = [case for case in CASES if case.name in selection.cases]
        peers = [system for system in PEERS if system.name in selection.against]
        return compare(self.name, cases, [flinknet_system.SYSTEM, *peers], selection, progress)

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, and the ratios to the peers."""
        print_rows(rows, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw throughput, and the ratios to the peers."""
        draw_ratios(rows, path)

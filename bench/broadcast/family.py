"""The family ``broadcast`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.broadcast.system import CHANNELS, SYSTEM
from bench.exchange.cases import orders
from bench.harness.comparison import ComparingFamily
from bench.harness.figure import PEER_COLOURS, SUBJECT_COLOURS, draw_bar_panel, open_panels
from bench.harness.row import Row
from bench.harness.table import RATE, Column, print_table

__all__ = ["BroadcastFamily", "further_channel"]

CASES = (orders.CASE,)
SIDES = ("producer", "consumer")

KEY = (
    "records/s: records emitted, each of which arrives on every channel; median of the interleaved "
    "runs, on the consumer's clock. CPU s/M: user and system seconds of that process per million "
    "records emitted. each more: what each channel beyond the first adds to that, relative to a "
    "broadcast to one channel. packed: how often a record was serialised, counted. out / made: "
    "bytes that the channels took over bytes that were written into buffers."
)


class BroadcastFamily(ComparingFamily):
    """One producer, one connection, every record to 1, 2, 4 and 8 channels."""

    name = "broadcast"
    summary = "what each further channel of a broadcast costs"

    def __init__(self) -> None:
        super().__init__(CASES, SYSTEM)

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, and the CPU of each side."""
        columns = [RATE]
        for side in SIDES:
            columns += [
                Column(f"{side}\nCPU s/M", partial(_format_cpu, side)),
                Column("each\nmore", partial(_format_share, rows, side), highlight=True),
            ]
        columns += [
            Column("packed", lambda row: f"{row.parameters['serialised_per_record']:g}"),
            Column("out\n/ made", lambda row: f"{row.parameters['bytes_out_per_byte_produced']:g}"),
        ]
        print_table(rows, columns, KEY, console, name="to")

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the CPU of each side."""
        with open_panels(path, len(SIDES), len(rows) + len(CASES)) as panels:
            for axes, side, colours in zip(
                panels, SIDES, (SUBJECT_COLOURS, PEER_COLOURS), strict=True
            ):
                title = f"CPU seconds of the {side} per million records emitted"
                values = [cpu_of(row, side) for row in rows]
                draw_bar_panel(axes, title, rows, values, "{:.3g}".format, colours=colours[:1])


def cpu_of(row: Row, side: str) -> float:
    """Return the CPU seconds of one process per million records."""
    value: float = row.parameters[f"{side}_cpu_s_per_million_records"]
    return value


def further_channel(rows: Sequence[Row], row: Row, side: str) -> float | None:
    """Return the share that each channel beyond the first adds; None for one channel."""
    channels = CHANNELS[row.variant]
    if channels == 1:
        return None
    first = next(
        cpu_of(one, side) for one in rows if one.case == row.case and CHANNELS[one.variant] == 1
    )
    return (cpu_of(row, side) - first) / (channels - 1) / first


def _format_cpu(side: str, row: Row) -> str:
    return f"{cpu_of(row, side):.3g}"


def _format_share(rows: Sequence[Row], side: str, row: Row) -> str:
    share = further_channel(rows, row, side)
    return "" if share is None else f"{share:+.0%}"

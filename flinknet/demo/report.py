"""The result as tables on a console and as a JSON file."""

from __future__ import annotations

import json
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from flinknet.demo.analysis import ChannelFigures, Latency, SubtaskFigures
from flinknet.demo.result import DemoResult
from flinknet.demo.verification import Verification
from flinknet.demo.workload import FLIGHTS
from flinknet.texts import counted

__all__ = ["format_latency", "print_differences", "print_report", "write_json"]

CHANNELS_SHOWN_MAX = 16
"""Maximum number of channels in the table; beyond it, the table has only keyed subtasks.

The JSON file has every channel.
"""

_PERCENTILES = ("p50", "p99", "p99.9", "max")
_RESULT = "[bold cyan]{}[/]"

DIFFERENCES_SHOWN_MAX = 50
"""Maximum number of rows in the table of differences; the JSON file has all."""


def write_json(result: DemoResult, path: Path) -> None:
    """Write the result as JSON."""
    path.write_text(json.dumps(result.to_dict(), indent=1) + "\n")


def print_report(result: DemoResult, console: Console) -> None:
    """Print the runs, the load of every channel, and the verification."""
    parameters = result.parameters
    workload = parameters.workload
    first = "" if workload.limit == FLIGHTS else f"the first {workload.limit:,} of "
    console.print(
        f"\n[bold]{first}{FLIGHTS:,} real flights x {workload.scale} = {workload.records:,} "
        f"records[/bold], {counted(workload.sources, 'source')}, "
        f"{counted(parameters.workers, 'worker')} x {counted(parameters.slots, 'slot')}, "
        f"{result.machine['cores']} cores ({result.machine['cpu']}), "
        f"flinknet {result.machine['implementation']}",
        highlight=False,
    )
    console.print(_runs_table(result))
    console.print(
        "Throughput is measured in the saturation run with Python tuples, and in the run in "
        "columns with Arrow record batches, of which the rows are counted. Latency is measured in "
        "the open-loop run, from the time at which a record is scheduled to the time at which the "
        "keyed operator has processed it, so a source that falls behind adds to the latency. "
        "Figures in brackets are not results: at saturation, latency is the time in full buffers; "
        "the rate of an open loop is chosen.",
        style="dim",
        highlight=False,
    )
    if not result.open_loop.kept_up:
        console.print(
            "The open-loop run fell behind its schedule, so its latency is that of a growing "
            "queue. Stop other programs that use the processor, or lower --load.",
            style="yellow",
            highlight=False,
        )
    console.print(_load_table(result))
    console.print(
        "Latency by keyed subtask and channel is from the open-loop run. The load is naturally "
        "skewed: all flights between an origin and a destination go to one keyed subtask, and "
        "their number is that of 2013.",
        style="dim",
        highlight=False,
    )
    for run in result.runs:
        _print_verdict(run.name, run.verification, console)
    if result.killed is not None:
        kill = result.killed.kill
        _print_verdict(
            f"with {kill.worker} killed, {kill.attempts} attempts, from {kill.restored_from}",
            result.killed.verification,
            console,
        )


def print_differences(name: str, verification: Verification, console: Console) -> None:
    """Print the differences between flinknet's and Spark's aggregates, side by side."""
    differences = verification.differences
    table = Table(
        title=f"Differences in the run: {name}",
        title_justify="left",
        title_style="bold red",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("origin", "dest", "aggregate"):
        table.add_column(heading)
    for heading in ("Spark", "flinknet"):
        table.add_column(heading, justify="right")
    for difference in differences[:DIFFERENCES_SHOWN_MAX]:
        table.add_row(
            difference.origin,
            difference.dest,
            difference.aggregate,
            _value(difference.spark),
            _value(difference.flinknet),
        )
    console.print(table)
    if len(differences) > DIFFERENCES_SHOWN_MAX:
        console.print(f"... and {len(differences) - DIFFERENCES_SHOWN_MAX:,} more")


def format_latency(microseconds: float) -> str:
    """Format a latency with three significant digits and a suitable unit."""
    for limit, factor, unit in ((999.5, 1.0, "µs"), (999_500.0, 1e3, "ms")):
        if microseconds < limit:
            return f"{_three_digits(microseconds / factor)} {unit}"
    return f"{_three_digits(microseconds / 1e6)} s"


def _three_digits(value: float) -> str:
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f}"


def _value(value: int | None) -> str:
    return "missing" if value is None else f"{value:,}"


def _latency_cells(latency: Latency) -> list[str]:
    return [
        format_latency(value)
        for value in (latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us)
    ]


def _runs_table(result: DemoResult) -> Table:
    """Return a table with one column per run.

    Figures that a run is not meant to measure are in brackets.
    """
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for heading in (
        "saturation run",
        "in columns",
        f"open-loop run at {result.parameters.load:.0%}",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    runs = [run.figures for run in result.runs]
    offered = result.open_loop.offered_records_per_s or 0.0
    table.add_row("records", *(f"{run.records:,}" for run in runs))
    table.add_row("seconds", *(f"{run.seconds:.2f}" for run in runs))
    table.add_row("records/s offered", "no limit", "no limit", f"{offered:,.0f}")
    for name, (*measured, chosen) in (
        ("records/s", [f"{run.records_per_s:,.0f}" for run in runs]),
        ("MB/s", [f"{run.mb_per_s:.1f}" for run in runs]),
    ):
        table.add_row(name, *map(_RESULT.format, measured), f"({chosen})")
    latencies = zip(*(_latency_cells(run.latency_us) for run in runs), strict=True)
    for name, (*in_full_buffers, measured_one) in zip(_PERCENTILES, latencies, strict=True):
        brackets = (f"({latency})" for latency in in_full_buffers)
        table.add_row(f"latency {name}", *brackets, _RESULT.format(measured_one))
    return table


def _load_table(result: DemoResult) -> Table:
    figures = result.open_loop.figures
    per_channel = len(figures.channels) <= CHANNELS_SHOWN_MAX
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("keyed subtask", no_wrap=True)
    for heading in ("records", "share", *_PERCENTILES):
        table.add_column(heading, justify="right", no_wrap=True)
    for subtask in figures.subtasks:
        channels = [channel for channel in figures.channels if channel.subtask == subtask.subtask]
        table.add_row(f"{subtask.subtask} on {subtask.worker}", *_load_cells(subtask), style="bold")
        if per_channel:
            for channel in channels:
                table.add_row(
                    f"  from source {channel.source}, {_path(channel)}", *_load_cells(channel)
                )
    return table


def _path(channel: ChannelFigures) -> str:
    return "local" if channel.local else "TCP"


def _load_cells(load: SubtaskFigures | ChannelFigures) -> list[str]:
    return [f"{load.records:,}", f"{load.share:.1%}", *_latency_cells(load.latency_us)]


def _print_verdict(name: str, verification: Verification, console: Console) -> None:
    if verification.passed:
        console.print(
            f"[bold green]verified[/] {name}: all {verification.pairs} (origin, dest) pairs "
            f"over {verification.records:,} records agree with Spark's groupBy",
            highlight=False,
        )
        return
    pairs = {(difference.origin, difference.dest) for difference in verification.differences}
    console.print(
        f"[bold red]DIFFERENT[/] {name}: {len(pairs)} of {verification.pairs} (origin, dest) "
        "pairs do not agree with Spark's groupBy",
        highlight=False,
    )
    print_differences(name, verification, console)

"""``flinknet demo``: the command line of the demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flinknet.cli.arguments import Master, On, cluster_config
from flinknet.demo.demo import run_demo
from flinknet.demo.figure import draw
from flinknet.demo.progress import DemoProgress
from flinknet.demo.report import print_report, write_json
from flinknet.demo.result import DemoParameters, DemoResult
from flinknet.demo.workload import FLIGHTS

__all__ = ["demo"]

REPORT_COLUMNS = 110
"""Width of the table that is saved as a text file."""


def demo(
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory for the workload and all results.")
    ] = Path("flinknet-demo"),
    scale: Annotated[
        int, typer.Option(help=f"Copies of the {FLIGHTS:,} flights; 9 are 3 million records.")
    ] = 9,
    on: On = None,
    master: Master = None,
    workers: Annotated[int, typer.Option(help="Worker processes.")] = 2,
    slots: Annotated[int, typer.Option(help="Slots of each worker.")] = 2,
    sources: Annotated[
        int | None, typer.Option(help="Source subtasks.", show_default="one per slot")
    ] = None,
    load: Annotated[
        float, typer.Option(help="Share of the measured maximum that the open-loop run offers.")
    ] = 0.5,
    kill: Annotated[
        bool,
        typer.Option("--kill", help="Kill a worker in a third run; the result is the same."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, and progress to stderr.")
    ] = False,
    limit: Annotated[int, typer.Option(hidden=True)] = FLIGHTS,
) -> None:
    """Exchange real flights between worker processes; Spark prepares them and checks the answer.

    With --on spark the workers run in the executors of the same session.
    Exit status: 0 Spark's results agree, 1 an aggregate differs from Spark's, 2 refused.
    """
    parameters = DemoParameters(output, scale, sources, workers, slots, load, limit, kill)
    config = cluster_config(None, workers, slots, None, None, on, master)
    console = Console(stderr=as_json)
    result = run_demo(parameters, config, DemoProgress(console))
    print_report(result, console)
    _keep(result, output, console)
    if as_json:
        print(json.dumps(result.to_dict()))
    if not result.verified:
        raise typer.Exit(1)


def _keep(result: DemoResult, output: Path, console: Console) -> None:
    """Write the table, the JSON and the figure, and print their paths."""
    with (output / "result.txt").open("w", encoding="utf-8") as file:
        print_report(result, Console(file=file, width=REPORT_COLUMNS))
    write_json(result, output / "result.json")
    draw(result, output / "result.png")
    names = ", ".join(str(output / f"result.{kind}") for kind in ("txt", "json", "png"))
    console.print(f"\nWritten: {names}", highlight=False, soft_wrap=True)

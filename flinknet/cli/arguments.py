"""The arguments that the commands for job files have in common."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, redirect_stdout
from pathlib import Path
from typing import Annotated, Literal

import typer

from flinknet.config import FlinknetConfig
from flinknet.config.loading import load_settings

__all__ = [
    "AllowNonRestoredState",
    "AsJson",
    "ConfigFile",
    "CoordinatorAddress",
    "EventLoop",
    "FromCheckpoint",
    "JobArguments",
    "JobFile",
    "SavedJob",
    "Slots",
    "Workers",
    "cluster_config",
    "output_redirected",
]

JobFile = Annotated[Path, typer.Argument(metavar="JOB.py", help="The job file.")]
JobArguments = Annotated[
    list[str] | None, typer.Argument(help="Arguments for the job file; put its options after --.")
]
Workers = Annotated[int | None, typer.Option(help="Worker processes.")]
Slots = Annotated[int | None, typer.Option(help="Slots of each worker.")]
EventLoop = Annotated[
    Literal["auto", "uvloop", "asyncio"] | None, typer.Option(help="Event loop of the workers.")
]
ConfigFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A TOML file, as deploy/cluster.toml.")
]
FromCheckpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Continue from this checkpoint or savepoint."),
]
AllowNonRestoredState = Annotated[
    bool, typer.Option(help="Leave state of operators behind that the job does not have.")
]
SavedJob = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, or its name.")]
CoordinatorAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The cluster's coordinator; by default that of the configuration's cluster.host and "
        "cluster.coordinator_port.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def output_redirected(as_json: bool) -> AbstractContextManager[object]:
    """Where a job file prints to: with --json, standard output is the JSON document's alone."""
    return redirect_stdout(sys.stderr if as_json else sys.stdout)


def cluster_config(
    config: Path | None, workers: int | None, slots: int | None, event_loop: str | None
) -> FlinknetConfig:
    flags = {
        "cluster.workers": workers,
        "cluster.slots_per_worker": slots,
        "cluster.event_loop": event_loop,
    }
    return load_settings(config, os.environ, flags).config

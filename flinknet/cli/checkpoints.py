"""``flinknet checkpoints``: the stored checkpoints of jobs, and whether they are intact."""

from __future__ import annotations

import asyncio
import json
import os
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flinknet import machine
from flinknet.checkpoint.inspection import KeptCheckpoint, find_checkpoints
from flinknet.checkpoint.metadata import CheckpointMetadata, StatePart
from flinknet.cli.arguments import AsJson, ConfigFile
from flinknet.cli.console import table_console
from flinknet.config import CheckpointingConfig
from flinknet.config.loading import load_settings
from flinknet.errors import CheckpointNotFoundError
from flinknet.texts import printable

__all__ = ["checkpoints_app"]

checkpoints_app = typer.Typer(
    help="Inspect the checkpoints of jobs.", no_args_is_help=True, rich_markup_mode=None
)

Directory = Annotated[
    str,
    typer.Argument(
        metavar="DIR",
        help="Directory or URL of one checkpoint, or of the checkpoints of one job or of all jobs.",
        show_default=False,
    ),
]

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


@checkpoints_app.command("list")
def list_checkpoints(
    directory: Directory, *, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """List checkpoints and savepoints. Exit status: 0 listed, 2 DIR has none."""
    found = _found(directory, config)
    if as_json:
        print(json.dumps([_summary(kept) for kept in found], indent=2))
    else:
        _print_list(table_console(), found)


@checkpoints_app.command()
def show(directory: Directory, *, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show the contents of a checkpoint; if DIR has several, of the last complete one.

    Exit status: 0 shown, 2 DIR has no complete checkpoint, or it cannot be read.
    """
    found = _found(directory, config)
    usable = [kept for kept in found if kept.state != "incomplete"]
    if not usable:
        raise CheckpointNotFoundError(f"{directory} has no complete checkpoint")
    if len({kept.directory.partition("/")[0] for kept in usable}) > 1:
        raise CheckpointNotFoundError(
            f"{directory} has checkpoints of several jobs: give the directory of one job"
        )
    kept = usable[-1]
    if kept.metadata is None:
        raise kept.error or CheckpointNotFoundError(f"{kept.location} has no metadata")
    if as_json:
        details = _summary(kept) | {"operators": _operators(kept.metadata)}
        print(json.dumps(details, indent=2))
    else:
        console = table_console()
        _print_list(console, [kept])
        console.print(_parts_table(kept.metadata))


@checkpoints_app.command()
def verify(directory: Directory, *, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Read every file of every complete checkpoint, and compare the checksums.

    Exit status: 0 all are good, 1 a file is bad, 2 there is nothing to verify.
    """
    found = [kept for kept in _found(directory, config) if kept.state != "incomplete"]
    if not found:
        raise CheckpointNotFoundError(f"{directory} has no complete checkpoint")
    errors = asyncio.run(_verified(found))
    if as_json:
        rows = [
            {"location": kept.location, "errors": wrong}
            for kept, wrong in zip(found, errors, strict=True)
        ]
        print(json.dumps(rows, indent=2))
    else:
        for kept, wrong in zip(found, errors, strict=True):
            print(printable(f"{kept.location}: {'BAD' if wrong else 'good'}"))
            for text in wrong:
                print(printable(f"  {text}"))
    if any(errors):
        raise typer.Exit(1)


async def _verified(found: list[KeptCheckpoint]) -> list[list[str]]:
    return [[str(error) for error in await kept.verify()] for kept in found]


def _found(directory: str, config: Path | None) -> list[KeptCheckpoint]:
    limits: CheckpointingConfig = load_settings(config, os.environ, {}).config.checkpointing
    return asyncio.run(find_checkpoints(directory, limits))


def _summary(kept: KeptCheckpoint) -> dict[str, Any]:
    """Return a checkpoint as plain JSON types; values of missing metadata are null."""
    metadata = kept.metadata
    return {
        "location": kept.location,
        "state": kept.state,
        "error": str(kept.error) if kept.error is not None else None,
        "job_id": metadata and metadata.job_id,
        "job": metadata and metadata.job,
        "attempt": metadata and metadata.attempt,
        "checkpoint_id": metadata and metadata.checkpoint_id,
        "kind": metadata and metadata.kind.name.lower(),
        "triggered_ms": metadata and metadata.triggered_ms,
        "completed_ms": metadata and metadata.completed_ms,
        "duration_ms": metadata and metadata.duration_ms,
        "size_bytes": metadata and metadata.size_bytes,
        "parts": metadata and sum(1 for _ in metadata.parts()),
        "files": metadata and len(metadata.files()),
        "written_by": metadata and metadata.written_by,
    }


def _operators(metadata: CheckpointMetadata) -> list[dict[str, Any]]:
    return [
        {
            "uid": operator.uid,
            "parallelism": operator.parallelism,
            "max_parallelism": operator.max_parallelism,
            "subtasks": [
                {
                    "subtask_index": subtask.subtask_index,
                    "finished": subtask.finished,
                    "parts": {kind.value: _part(part) for kind, part in subtask.parts.items()},
                }
                for subtask in operator.subtasks
            ],
        }
        for operator in metadata.operators
    ]


def _part(part: StatePart) -> dict[str, Any]:
    sections = [
        {"label": section.label, "size_bytes": section.size_bytes} for section in part.sections
    ]
    return {"name": part.name, "size_bytes": part.size_bytes, "sections": sections}


def _print_list(console: Console, found: list[KeptCheckpoint]) -> None:
    """Print a table for each directory that has checkpoints, that is, for each job."""
    now_ms = machine.wall_time() * 1000
    for parent, group in groupby(found, lambda kept: kept.location.rpartition("/")[0]):
        of_one_job = list(group)
        jobs = {kept.metadata.job: None for kept in of_one_job if kept.metadata is not None}
        heading = f"{', '.join(jobs) or 'unknown job'}, {parent}"
        console.print(Text(printable(heading)), soft_wrap=True)
        console.print(_list_table(of_one_job, now_ms))


def _list_table(found: list[KeptCheckpoint], now_ms: float) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("directory", overflow="fold")
    table.add_column("state", no_wrap=True)
    for heading in ("age", "took", "size", "parts"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kept in found:
        metadata = kept.metadata
        directory = Text(printable(kept.location.rpartition("/")[2]))
        if metadata is None:
            table.add_row(directory, kept.state if kept.error is None else "BAD")
            continue
        table.add_row(
            directory,
            kept.state,
            _span((now_ms - metadata.completed_ms) / 1000),
            f"{metadata.duration_ms / 1000:.2f} s",
            _size(metadata.size_bytes),
            str(sum(1 for _ in metadata.parts())),
        )
    return table


def _parts_table(metadata: CheckpointMetadata) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("operator", overflow="fold")
    table.add_column("subtask", justify="right")
    table.add_column("state")
    table.add_column("sections", justify="right")
    table.add_column("size", justify="right")
    table.add_column("file", overflow="fold")
    for operator in metadata.operators:
        for subtask in operator.subtasks:
            index = f"{subtask.subtask_index} of {operator.parallelism}"
            name = Text(printable(operator.uid))
            if subtask.finished:
                table.add_row(name, index, "finished", "", "", "")
            for kind, part in subtask.parts.items():
                sections, size = str(len(part.sections)), _size(part.size_bytes)
                table.add_row(name, index, kind, sections, size, part.name or "(inline)")
    return table


def _span(seconds: float) -> str:
    """Return a duration in a readable unit."""
    for factor, unit in _UNITS:
        if seconds >= factor:
            return f"{seconds / factor:.1f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"


def _size(number: int) -> str:
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} B"

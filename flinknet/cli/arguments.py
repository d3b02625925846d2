"""The arguments that are common to the commands for job files."""

from __future__ import annotations

import difflib
import os
import sys
from contextlib import AbstractContextManager, redirect_stdout
from pathlib import Path
from typing import Annotated, Literal

import typer

from flinknet.config import FlinknetConfig
from flinknet.config.loading import load_settings
from flinknet.errors import ConfigurationError
from flinknet.texts import printable

__all__ = [
    "AllowNonRestoredState",
    "AsJson",
    "ConfigFile",
    "EventLoop",
    "FromCheckpoint",
    "JobArguments",
    "JobFile",
    "LogLevel",
    "Master",
    "On",
    "OptionalJob",
    "RunningCluster",
    "SavedJob",
    "Slots",
    "Workers",
    "cluster_config",
    "output_redirected",
]

_SIMILAR = 0.8
"""Similarity from which on an option for the job file may have been meant for flinknet."""


def _no_option(context: typer.Context, value: Path) -> Path:
    """Refuse an option in place of the job file: options before the file belong to flinknet."""
    if str(value).startswith("-"):
        near = _nearest_option(context, str(value))
        hint = f" Did you mean {near}?" if near else ""
        raise typer.BadParameter(
            f"No such option: {value}.{hint} Options of the job follow JOB.py."
        )
    return value


def _tell_of_likely_mistakes(context: typer.Context, value: list[str] | None) -> list[str] | None:
    for argument in value or ():
        near = argument.startswith("--") and _nearest_option(context, argument)
        if near and near != argument.partition("=")[0]:
            text = f"flinknet: {argument} goes to the job file; did you mean flinknet's {near}?"
            print(printable(text), file=sys.stderr)
    return value


def _nearest_option(context: typer.Context, written: str) -> str | None:
    known = [name for parameter in context.command.params for name in parameter.opts]
    near = difflib.get_close_matches(written.partition("=")[0], known, n=1, cutoff=_SIMILAR)
    return near[0] if near else None


JobFile = Annotated[
    Path, typer.Argument(metavar="JOB.py", help="The job file.", callback=_no_option)
]
JobArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGUMENTS",
        help="Arguments and options for the job file: each option that is not listed below, and "
        "everything after --.",
        callback=_tell_of_likely_mistakes,
    ),
]
Workers = Annotated[int | None, typer.Option(help="Worker processes.")]
Slots = Annotated[int | None, typer.Option(help="Slots of each worker.")]
EventLoop = Annotated[
    Literal["auto", "uvloop", "asyncio"] | None, typer.Option(help="Event loop of the workers.")
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(help="Lowest level of user code's log lines to show; debug adds flinknet's own."),
]
On = Annotated[
    str | None,
    typer.Option(metavar="LAUNCHER", help="Where the cluster runs: local, or spark."),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="MASTER",
        help="With --on spark, its master: local[4], local-cluster[2,1,1024], spark://HOST:7077, "
        "yarn, k8s://..., or sc://HOST of Spark Connect.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A TOML file: `flinknet config template` prints one. [FLINKNET_CONFIG]"
    ),
]
FromCheckpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Continue from this checkpoint or savepoint."),
]
AllowNonRestoredState = Annotated[
    bool,
    typer.Option(
        "--allow-non-restored-state",
        help="Skip state of operators that the job does not have.",
    ),
]
SavedJob = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, or its name.")]
OptionalJob = Annotated[
    str | None, typer.Argument(metavar="[JOB]", help="The job's id, or its name.")
]
RunningCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        "--coordinator",
        metavar="NAME",
        help="The cluster: its name, or HOST:PORT of its coordinator with the token in "
        "FLINKNET_CLUSTER_TOKEN. Default: cluster.host and cluster.coordinator_port of the "
        "configuration if it sets a port, otherwise the cluster `default` of this machine.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def output_redirected(as_json: bool) -> AbstractContextManager[object]:
    """Return the redirection for a job file's output: with --json, stdout is for the JSON alone."""
    return redirect_stdout(sys.stderr if as_json else sys.stdout)


def cluster_config(
    config: Path | None,
    workers: int | None,
    slots: int | None,
    event_loop: str | None,
    log_level: str | None = None,
    launcher: str | None = None,
    master: str | None = None,
) -> FlinknetConfig:
    flags = {
        "cluster.workers": workers,
        "cluster.slots_per_worker": slots,
        "cluster.event_loop": event_loop,
        "cluster.log_level": log_level,
        "cluster.launcher": launcher,
        "spark.master": master,
    }
    loaded = load_settings(config, os.environ, flags).config
    if master is not None and loaded.cluster.launcher != "spark":
        raise ConfigurationError(
            f"--master {master} is for a cluster on Spark: write --on spark --master {master}"
        )
    return loaded

"""The commands ``flinknet run`` and ``flinknet explain``; ``flinknet/cli.py`` registers them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from flinknet.cluster.display import JobDisplay, result_table
from flinknet.cluster.explanation import explanation
from flinknet.cluster.job_file import first_job, no_job, run_job_file
from flinknet.cluster.job_result import JobProgress, JobResult
from flinknet.cluster.preflight import explain_job
from flinknet.cluster.run import run_job
from flinknet.config import FlinknetConfig
from flinknet.errors import ConfigurationError, FlinknetError, JobError
from flinknet.settings import load_settings
from flinknet.task.graph import JobGraph
from flinknet.texts import printable

__all__ = ["explain", "run"]

EXIT_INTERRUPTED = 130

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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def explain(
    job: JobFile,
    arguments: JobArguments = None,
    *,
    workers: Workers = None,
    slots: Slots = None,
    event_loop: EventLoop = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what network memory a job needs, and the most memory that its workers can hold.

    The file runs up to its first execute(); nothing is started. Exit status: 0 explained, 2 no job
    or not enough slots.
    """
    loaded = _load(config, workers, slots, event_loop)
    with _redirected_output(as_json):
        graph = first_job(job, arguments or [])
    memory = explain_job(graph, loaded)
    if as_json:
        print(json.dumps(memory.to_dict(), indent=2))
    else:
        Console().print(explanation(memory))


def run(
    job: JobFile,
    arguments: JobArguments = None,
    *,
    workers: Workers = None,
    slots: Slots = None,
    event_loop: EventLoop = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Run a job file on a local cluster.

    Each execute() of the file runs on a cluster of its own. Exit status: 0 all jobs finished, 1 a
    job failed, 2 refused before anything was started, 130 Ctrl-C.
    """
    runner = _Runner(_load(config, workers, slots, event_loop), as_json=as_json)
    try:
        with _redirected_output(as_json):
            run_job_file(job, arguments or [], runner.execute)
        if not runner.jobs:
            raise ConfigurationError(no_job(job))
    except KeyboardInterrupt:
        print("interrupted: the cluster has been stopped", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except FlinknetError as error:
        runner.error = error
        raise
    finally:
        runner.print_json()


def _redirected_output(as_json: bool) -> AbstractContextManager[object]:
    """Where a job file prints to: with --json, standard output is the JSON document's alone."""
    return redirect_stdout(sys.stderr if as_json else sys.stdout)


def _load(
    config: Path | None, workers: int | None, slots: int | None, event_loop: str | None
) -> FlinknetConfig:
    flags = {
        "cluster.workers": workers,
        "cluster.slots_per_worker": slots,
        "cluster.event_loop": event_loop,
    }
    return load_settings(config, os.environ, flags).config


class _Runner:
    """Runs the jobs of one job file and remembers how each ended."""

    def __init__(self, config: FlinknetConfig, *, as_json: bool) -> None:
        self._config = config
        self._as_json = as_json
        self._display = JobDisplay(Console(stderr=True))
        self.jobs: list[dict[str, Any]] = []
        self.error: FlinknetError | None = None

    def execute(self, graph: JobGraph) -> JobResult:
        """The executor of the job file."""
        last: list[JobProgress] = []

        def show(progress: JobProgress) -> None:
            last[:] = [progress]
            self._display.show(progress)

        try:
            with self._display:
                result = run_job(
                    graph, self._config, on_progress=show, on_output=self._display.show_output
                )
        except JobError:
            self.jobs.extend(progress.to_dict() for progress in last)
            raise
        self.jobs.append(result.to_dict())
        if not self._as_json:
            Console().print(result_table(result))
        return result

    def print_json(self) -> None:
        """With --json: what happened, as one document on standard output."""
        if not self._as_json:
            return
        text = printable(str(self.error))
        error = self.error and {"type": type(self.error).__name__, "message": text}
        print(json.dumps({"jobs": self.jobs, "error": error}, indent=2))

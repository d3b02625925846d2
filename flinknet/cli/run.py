"""``flinknet run``: run the jobs of a job file, on their own clusters or on a running one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flinknet.cli.arguments import (
    AllowNonRestoredState,
    AsJson,
    ConfigFile,
    EventLoop,
    FromCheckpoint,
    JobArguments,
    JobFile,
    LogLevel,
    Master,
    On,
    Slots,
    Workers,
    cluster_config,
    output_redirected,
)
from flinknet.cli.cluster_client import running_cluster
from flinknet.cli.console import table_console
from flinknet.cli.job_file import no_job, run_job_file
from flinknet.cluster.control.job_files import FilesInUse, read_job_files
from flinknet.cluster.control.job_result import JobProgress, JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.cluster.launch.job_display import JobDisplay, result_table
from flinknet.cluster.launch.named_clusters import NamedCluster
from flinknet.cluster.launch.remote import run_on_cluster
from flinknet.cluster.launch.run import run_job
from flinknet.config import FlinknetConfig
from flinknet.config.loading import Option
from flinknet.errors import ConfigurationError, FlinknetError, JobError
from flinknet.graph.graph import JobGraph
from flinknet.texts import printable

__all__ = ["run"]

EXIT_INTERRUPTED = 130


Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        "--coordinator",
        metavar="NAME",
        help="The running cluster to use: its name, or HOST:PORT of its coordinator with the token "
        "in FLINKNET_CLUSTER_TOKEN. Default: each job gets a cluster of its own.",
    ),
]
Detach = Annotated[
    bool,
    typer.Option(
        "--detach", help="Print the job's id when it is submitted, and do not wait for its end."
    ),
]


WaitForSlots = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time that the job may wait for slots of the cluster, such as 60s or 5min. Default: a "
        "job that does not fit is refused.",
    ),
]
PyFiles = Annotated[
    str | None,
    typer.Option(
        metavar="FILES",
        help="Python files to send to the workers with the job, separated by commas: modules "
        "(.py), zips and wheels.",
    ),
]
Archives = Annotated[
    str | None,
    typer.Option(
        metavar="FILES",
        help="Archives to send to the workers with the job, separated by commas; FILE#NAME names "
        "the directory, which job_archive(NAME) finds.",
    ),
]


def run(
    job: JobFile,
    arguments: JobArguments = None,
    *,
    cluster: Cluster = None,
    detach: Detach = False,
    wait_for_slots: WaitForSlots = None,
    py_files: PyFiles = None,
    archives: Archives = None,
    on: On = None,
    master: Master = None,
    workers: Workers = None,
    slots: Slots = None,
    event_loop: EventLoop = None,
    log_level: LogLevel = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    from_checkpoint: FromCheckpoint = None,
    allow_non_restored_state: AllowNonRestoredState = False,
) -> None:
    """Run a job file on a cluster of its own, or on a running one.

    Without --cluster, each execute() of the file starts a cluster of its own, on this machine
    unless --on (cluster.launcher) says otherwise. Exit status: 0 all jobs finished or were
    submitted, 1 a job or the job file failed, 2 refused before anything was started, 130 Ctrl-C,
    which cancels the job.
    """
    of_own = {
        "--on": on,
        "--master": master,
        "--workers": workers,
        "--slots": slots,
        "--event-loop": event_loop,
        "--log-level": log_level,
    }
    of_running = [("--detach", detach), ("--wait-for-slots", wait_for_slots is not None)]
    place = _place(cluster, of_own, config, [name for name, given in of_running if given])
    loaded = cluster_config(config, workers, slots, event_loop, log_level, on, master)
    runner = _Runner(
        loaded if place is None else place.config,
        place,
        is_detached=detach,
        wait_for_slots_ms=_milliseconds(wait_for_slots),
        python_files=_paths(py_files),
        archives=_paths(archives),
        as_json=as_json,
        from_checkpoint=from_checkpoint,
        allow_non_restored_state=allow_non_restored_state,
    )
    try:
        files = read_job_files(_paths(py_files), _paths(archives))
        with output_redirected(as_json), FilesInUse(loaded.cluster).used(files):
            run_job_file(job, arguments or [], runner.execute, loaded)
        if not runner.jobs:
            raise ConfigurationError(no_job(job))
    except KeyboardInterrupt:
        ended = "the job has been cancelled" if place else "the cluster has been stopped"
        print(f"interrupted: {ended}", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except FlinknetError as error:
        runner.error = error
        raise
    finally:
        runner.print_json()


def _milliseconds(written: str | None) -> float:
    option = Option("wait_for_slots_ms", float, 0.0)
    try:
        waits_ms = option.parse(written or 0)
    except ValueError:
        waits_ms = None
    if not isinstance(waits_ms, float) or waits_ms < 0:
        raise ConfigurationError(f"--wait-for-slots is {written!r}: write {option.accepted}")
    return waits_ms


def _paths(written: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (written or "").split(",")))


def _place(
    cluster: str | None,
    of_own: Mapping[str, object],
    config: Path | None,
    of_running: Sequence[str],
) -> NamedCluster | None:
    """Return the running cluster to use; None if each job gets its own."""
    if cluster is None:
        if of_running:
            raise ConfigurationError(
                f"{of_running[0]} needs --cluster NAME: without it, the job gets a cluster of its "
                "own, which ends with this program"
            )
        return None
    given = [name for name, value in of_own.items() if value is not None]
    if given:
        raise ConfigurationError(
            f"{', '.join(given)} cannot be used with --cluster: a running cluster has its own "
            "settings"
        )
    return running_cluster(cluster, config)


class _Runner:
    """Runs the jobs of one job file and records their results."""

    def __init__(
        self,
        config: FlinknetConfig,
        place: NamedCluster | None,
        *,
        is_detached: bool,
        wait_for_slots_ms: float,
        python_files: tuple[str, ...],
        archives: tuple[str, ...],
        as_json: bool,
        from_checkpoint: str | None,
        allow_non_restored_state: bool,
    ) -> None:
        self._from_checkpoint = from_checkpoint
        self._allow_non_restored_state = allow_non_restored_state
        self._config = config
        self._place = place
        self._is_detached = is_detached
        self._wait_for_slots_ms = wait_for_slots_ms
        self._python_files = python_files
        self._archives = archives
        self._as_json = as_json
        self._display = JobDisplay(Console(stderr=True), config.cluster)
        self._lines = JobDisplay(Console(stderr=True, force_terminal=False), config.cluster)
        """The display for jobs that run side by side."""
        self.jobs: list[dict[str, Any]] = []
        self.error: FlinknetError | None = None

    def execute(self, graph: JobGraph, control: JobControl | None) -> JobResult:
        """Execute a job; this is the executor of the job file."""
        if self._from_checkpoint is not None and self.jobs:
            raise ConfigurationError(
                "--from-checkpoint applies to one job, but the job file executes another one"
            )
        graph = replace(
            graph,
            python_files=(*graph.python_files, *self._python_files),
            archives=(*graph.archives, *self._archives),
        )
        last: list[JobProgress] = []
        display = self._display if control is None else self._lines

        def show(progress: JobProgress) -> None:
            last[:] = [progress]
            display.show(progress)

        try:
            with display:
                result = self._run(graph)(
                    on_progress=show,
                    on_output=display.show_output,
                    on_page=display.show_page,
                    control=control,
                    from_checkpoint=self._from_checkpoint,
                    allow_non_restored_state=self._allow_non_restored_state,
                )
        except JobError:
            self.jobs.extend(progress.to_dict() for progress in last)
            raise
        self.jobs.append(result.to_dict())
        if self._is_detached:
            if not self._as_json:
                print(result.job_id)
        elif not self._as_json:
            # Standard output is reserved for the job: `flinknet run JOB.py | sort` works.
            table_console(stderr=True).print(result_table(result))
        return result

    def _run(self, graph: JobGraph) -> partial[JobResult]:
        """Return the function that runs the job on its own cluster or on the running one."""
        if self._place is None:
            return partial(run_job, graph, self._config)
        return partial(
            run_on_cluster,
            graph,
            self._place,
            is_detached=self._is_detached,
            wait_for_slots_ms=self._wait_for_slots_ms,
        )

    def print_json(self) -> None:
        """With --json, print the results and the error as one JSON document on standard output."""
        if not self._as_json:
            return
        text = printable(str(self.error))
        error = self.error and {"type": type(self.error).__name__, "message": text}
        print(json.dumps({"jobs": self.jobs, "error": error}, indent=2))

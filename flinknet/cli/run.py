"""``flinknet run``: the jobs of a job file, each on a cluster of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

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
    Slots,
    Workers,
    cluster_config,
    output_redirected,
)
from flinknet.cli.console import table_console
from flinknet.cli.job_file import no_job, run_job_file
from flinknet.cluster.control.job_result import JobProgress, JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.cluster.launch.job_display import JobDisplay, result_table
from flinknet.cluster.launch.run import run_job
from flinknet.config import FlinknetConfig
from flinknet.errors import ConfigurationError, FlinknetError, JobError
from flinknet.graph.graph import JobGraph
from flinknet.texts import printable

__all__ = ["run"]

EXIT_INTERRUPTED = 130


def run(
    job: JobFile,
    arguments: JobArguments = None,
    *,
    workers: Workers = None,
    slots: Slots = None,
    event_loop: EventLoop = None,
    log_level: LogLevel = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    from_checkpoint: FromCheckpoint = None,
    allow_non_restored_state: AllowNonRestoredState = False,
) -> None:
    """Run a job file on a cluster of its own.

    Each execute() of the file has one, on this machine unless cluster.launcher says otherwise. Exit
    status: 0 all jobs finished, 1 a job failed, 2 refused before anything was started, 130 Ctrl-C.
    """
    loaded = cluster_config(config, workers, slots, event_loop, log_level)
    runner = _Runner(
        loaded,
        as_json=as_json,
        from_checkpoint=from_checkpoint,
        allow_non_restored_state=allow_non_restored_state,
    )
    try:
        with output_redirected(as_json):
            run_job_file(job, arguments or [], runner.execute, loaded)
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


class _Runner:
    """Runs the jobs of one job file and remembers how each ended."""

    def __init__(
        self,
        config: FlinknetConfig,
        *,
        as_json: bool,
        from_checkpoint: str | None,
        allow_non_restored_state: bool,
    ) -> None:
        self._from_checkpoint = from_checkpoint
        self._allow_non_restored_state = allow_non_restored_state
        self._config = config
        self._as_json = as_json
        self._display = JobDisplay(Console(stderr=True), config.cluster)
        self._lines = JobDisplay(Console(stderr=True, force_terminal=False), config.cluster)
        """For jobs that run side by side."""
        self.jobs: list[dict[str, Any]] = []
        self.error: FlinknetError | None = None

    def execute(self, graph: JobGraph, control: JobControl | None) -> JobResult:
        """The executor of the job file."""
        if self._from_checkpoint is not None and self.jobs:
            raise ConfigurationError(
                "--from-checkpoint is of one job, and the job file executes another one"
            )
        last: list[JobProgress] = []
        display = self._display if control is None else self._lines

        def show(progress: JobProgress) -> None:
            last[:] = [progress]
            display.show(progress)

        try:
            with display:
                result = run_job(
                    graph,
                    self._config,
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
        if not self._as_json:
            # Standard output is for what the job prints: `flinknet run JOB.py | sort` works.
            table_console(stderr=True).print(result_table(result))
        return result

    def print_json(self) -> None:
        """With --json: what happened, as one document on standard output."""
        if not self._as_json:
            return
        text = printable(str(self.error))
        error = self.error and {"type": type(self.error).__name__, "message": text}
        print(json.dumps({"jobs": self.jobs, "error": error}, indent=2))

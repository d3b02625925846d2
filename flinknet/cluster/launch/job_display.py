"""The display of running jobs: a live table on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from flinknet.cluster.control.credentials import without_token
from flinknet.cluster.control.job_result import JobProgress, JobResult, VertexProgress
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.launch.fitting_table import FittingTable
from flinknet.cluster.launch.process_output import is_shown, print_json_output
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.texts import printable

__all__ = ["JobDisplay", "result_table", "run_job_on_terminal"]

LINE_INTERVAL_S = 2.0
"""Seconds between two lines without a terminal: enough to see progress, too few to fill a log."""


_COUNTS = ("records in", "records out", "records in/s", "MB in", "MB out")


def run_job_on_terminal(run: Callable[..., JobResult], config: FlinknetConfig) -> JobResult:
    """Run a job with ``run``, and display it on standard error if that is a terminal.

    ``run`` is ``run_job`` or ``run_on_cluster`` with a job.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        return run()
    with JobDisplay(console, config.cluster) as display:
        result = run(
            on_progress=display.show,
            on_output=display.show_output,
            on_page=display.show_page,
        )
    console.print(result_table(result))
    return result


class JobDisplay:
    """Displays jobs one after the other, each in its own ``with`` block.

    ``show`` takes the job's progress, ``show_output`` the output of its processes.
    """

    def __init__(self, console: Console, config: ClusterConfig | None = None) -> None:
        self._console = console
        self._has_json_logs = config is not None and config.log_format == "json"
        self._live: Live | None = None
        self._previous: JobProgress | None = None
        self._line_due_s = 0.0

    def __enter__(self) -> Self:
        self._previous, self._line_due_s = None, 0.0
        if self._console.is_terminal:
            starting = Text("starting the cluster ...")
            # Lines printed by workers go to standard output unchanged, if that is no terminal.
            self._live = Live(
                starting,
                console=self._console,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
            )
            self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, progress: JobProgress) -> None:
        """Show the progress of the job."""
        if self._live is not None:
            self._live.update(_progress_table(progress, self._previous))
        elif progress.seconds >= self._line_due_s:
            self._line_due_s = progress.seconds + LINE_INTERVAL_S
            self._console.print(_text(_progress_line(progress)), soft_wrap=True, highlight=False)
        self._previous = progress

    def show_output(self, process: str, line: str) -> None:
        """Show a line of a worker's standard error, or a problem of the coordinator."""
        if self._has_json_logs:
            print_json_output(process, line)
            return
        if not is_shown(process, line):
            return
        text = Text.assemble((f"{process} | ", "dim"), printable(line))
        self._console.print(text, soft_wrap=True, highlight=False)

    def show_page(self, page: str) -> None:
        """Print the address of the cluster's web page, and the other paths at that address.

        The address contains the cluster's token, which a log or a file must not keep. The token is
        therefore left out if standard error is no terminal.
        """
        if not self._console.is_terminal:
            page = without_token(page)
        text = Text.assemble(("page: ", "dim"), page, ("  (REST: /v1, metrics: /metrics)", "dim"))
        self._console.print(text, soft_wrap=True, highlight=False)


def result_table(result: JobResult) -> FittingTable:
    """Return the table of a finished job: the work of each subtask."""
    table = FittingTable(
        title=_text(f"{result.name}: {result.state} after {result.seconds:.2f} s"),
        names=("subtask", "worker"),
        numbers=(*_COUNTS, "busy", "backpressured"),
    )
    for row in result.vertices:
        table.add_row(
            _text(row["name"]),
            _text(row["worker_id"]),
            f"{row['records_in']:,}",
            f"{row['records_out']:,}",
            _rate(row["records_in"], result.seconds),
            _megabytes(row["bytes_in"]),
            _megabytes(row["bytes_out"]),
            *_busy_and_backpressured(
                row["idle_time_ms"], row["busy_time_ms"], row["backpressured_time_ms"]
            ),
        )
    return table


def _progress_table(progress: JobProgress, previous: JobProgress | None) -> FittingTable:
    table = FittingTable(
        title=_text(f"{progress.name}: {_state(progress)}, {progress.seconds:.1f} s"),
        names=("vertex", "subtasks"),
        numbers=(*_COUNTS, "busy", "backpressured"),
    )
    for vertex in progress.vertices:
        before = _before(vertex, progress, previous)
        records, seconds = vertex.records_in, progress.seconds
        idle_ms, busy_ms = vertex.idle_time_ms, vertex.busy_time_ms
        backpressured_ms = vertex.backpressured_time_ms
        if previous is not None and before is not None:
            records -= before.records_in
            seconds -= previous.seconds
            idle_ms -= before.idle_time_ms
            busy_ms -= before.busy_time_ms
            backpressured_ms -= before.backpressured_time_ms
        table.add_row(
            _text(vertex.name),
            ", ".join(f"{count} {state.lower()}" for state, count in vertex.states.items()),
            f"{vertex.records_in:,}",
            f"{vertex.records_out:,}",
            _rate(records, seconds),
            _megabytes(vertex.bytes_in),
            _megabytes(vertex.bytes_out),
            *_busy_and_backpressured(idle_ms, busy_ms, backpressured_ms),
        )
    return table


def _state(progress: JobProgress) -> str:
    return "waits for slots" if progress.state == JobState.CREATED.value else progress.state


def _progress_line(progress: JobProgress) -> str:
    vertices = "; ".join(
        f"{vertex.name}: {vertex.records_in:,} in, {vertex.records_out:,} out"
        for vertex in progress.vertices
    )
    return f"{progress.name}: {_state(progress)}, {progress.seconds:.1f} s; {vertices}"


def _text(text: str) -> Text:
    """Return a text with user-defined names, without control characters or markup."""
    return Text(printable(text))


def _before(
    vertex: VertexProgress, progress: JobProgress, previous: JobProgress | None
) -> VertexProgress | None:
    """Return the vertex in the previous report of the same attempt, or None.

    Another attempt counts from 0.
    """
    if previous is None or (previous.job_id, previous.attempt) != (
        progress.job_id,
        progress.attempt,
    ):
        return None
    return previous.vertices[vertex.id]


def _rate(records: int, seconds: float) -> str:
    return f"{records / seconds:,.0f}" if seconds > 0 else "-"


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.1f}"


def _busy_and_backpressured(idle_ms: int, busy_ms: int, backpressured_ms: int) -> tuple[str, str]:
    """Return two shares of the time; the rest is idle."""
    total_ms = idle_ms + busy_ms + backpressured_ms
    if total_ms <= 0:
        return "-", "-"
    return f"{busy_ms / total_ms:.0%}", f"{backpressured_ms / total_ms:.0%}"

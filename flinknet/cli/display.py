"""What a person sees of running jobs: a live table on a terminal, now and then a line elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flinknet.cluster.control.job_result import JobProgress, JobResult, VertexProgress
from flinknet.cluster.local.process_output import COORDINATOR
from flinknet.texts import printable

__all__ = ["JobDisplay", "result_table"]

LINE_INTERVAL_S = 2.0
"""Pause between two lines where there is no terminal: enough to see life, too few to fill a log."""


class JobDisplay:
    """Shows one job after the other, each in a ``with`` block of its own.

    ``show`` takes the job's progress, ``show_output`` what its processes print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._previous: JobProgress | None = None
        self._line_due_s = 0.0

    def __enter__(self) -> Self:
        self._previous, self._line_due_s = None, 0.0
        if self._console.is_terminal:
            starting = Text("starting the cluster ...")
            self._live = Live(starting, console=self._console, transient=True)
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
        """Show how the job stands."""
        if self._live is not None:
            self._live.update(_progress_table(progress, self._previous))
        elif progress.seconds >= self._line_due_s:
            self._line_due_s = progress.seconds + LINE_INTERVAL_S
            self._console.print(_text(_progress_line(progress)), soft_wrap=True, highlight=False)
        self._previous = progress

    def show_output(self, process: str, line: str) -> None:
        """Show a line that a worker printed; the coordinator's own say nothing new here."""
        if process == COORDINATOR:
            return
        text = Text.assemble((f"{process} | ", "dim"), printable(line))
        self._console.print(text, soft_wrap=True, highlight=False)


def result_table(result: JobResult) -> Table:
    """The end of a job that went well: what each subtask did."""
    table = Table(
        title=_text(f"{result.name}: {result.state} after {result.seconds:.2f} s"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("subtask")
    table.add_column("worker")
    for heading in ("records in", "records out", "records in/s", "MB in", "MB out"):
        table.add_column(heading, justify="right")
    table.add_column("busy, backpressured", justify="right")
    for row in result.vertices:
        table.add_row(
            _text(row["name"]),
            _text(row["worker_id"]),
            f"{row['records_in']:,}",
            f"{row['records_out']:,}",
            _rate(row["records_in"], result.seconds),
            _megabytes(row["bytes_in"]),
            _megabytes(row["bytes_out"]),
            _busy_and_backpressured(row),
        )
    return table


def _progress_table(progress: JobProgress, previous: JobProgress | None) -> Table:
    table = Table(
        title=_text(f"{progress.name}: {progress.state}, {progress.seconds:.1f} s"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("vertex")
    table.add_column("subtasks")
    for heading in ("records in", "records out", "records in/s", "MB in", "MB out"):
        table.add_column(heading, justify="right")
    for vertex in progress.vertices:
        records, seconds = _since(vertex, progress, previous)
        table.add_row(
            _text(vertex.name),
            ", ".join(f"{count} {state.lower()}" for state, count in vertex.states.items()),
            f"{vertex.records_in:,}",
            f"{vertex.records_out:,}",
            _rate(records, seconds),
            _megabytes(vertex.bytes_in),
            _megabytes(vertex.bytes_out),
        )
    return table


def _progress_line(progress: JobProgress) -> str:
    vertices = "; ".join(
        f"{vertex.name}: {vertex.records_in:,} in, {vertex.records_out:,} out"
        for vertex in progress.vertices
    )
    return f"{progress.name}: {progress.state}, {progress.seconds:.1f} s; {vertices}"


def _text(text: str) -> Text:
    """A text with names that users gave: nothing in it rules the terminal, nor is markup."""
    return Text(printable(text))


def _since(
    vertex: VertexProgress, progress: JobProgress, previous: JobProgress | None
) -> tuple[int, float]:
    """Records that went into the vertex since the previous report, and the seconds it took."""
    if previous is None or previous.job_id != progress.job_id:
        return vertex.records_in, progress.seconds
    before = previous.vertices[vertex.id]
    return vertex.records_in - before.records_in, progress.seconds - previous.seconds


def _rate(records: int, seconds: float) -> str:
    return f"{records / seconds:,.0f}" if seconds > 0 else "-"


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.1f}"


def _busy_and_backpressured(row: dict[str, Any]) -> str:
    """Two parts of the subtask's time; the rest is idle."""
    busy_ms, backpressured_ms = row["busy_time_ms"], row["backpressured_time_ms"]
    total_ms = row["idle_time_ms"] + busy_ms + backpressured_ms
    return f"{busy_ms / total_ms:.0%}, {backpressured_ms / total_ms:.0%}" if total_ms else "-"

"""Jobs are shown as a live table on a terminal, and as occasional lines elsewhere."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from flinknet.cluster.control.job_result import JobProgress, JobResult, VertexProgress
from flinknet.cluster.launch.job_display import LINE_INTERVAL_S, JobDisplay, result_table

SOURCE = VertexProgress(
    1000,
    1000,
    0,
    40_000,
    0,
    900,
    100,
    id=0,
    name="Source: flights",
    parallelism=2,
    states={"RUNNING": 2},
)
SINK = VertexProgress(
    900,
    0,
    36_000,
    0,
    0,
    0,
    0,
    id=1,
    name="Reduce",
    parallelism=2,
    states={"RUNNING": 1, "FINISHED": 1},
)


def progress(seconds: float, records: int = 1000, job_id: str = "job") -> JobProgress:
    source = replace(SOURCE, records_in=records, records_out=records)
    return JobProgress(
        job_id, "flights", 0, "RUNNING", seconds, ("worker-0",), (source, SINK), None
    )


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, force_terminal=terminal, width=160, color_system=None), written


def test_a_terminal_gets_a_live_table_with_the_rate_of_the_moment() -> None:
    target, written = console(terminal=True)
    with JobDisplay(target) as display:
        assert "starting the cluster" in written.getvalue()
        display.show(progress(1.0, 1000))
        display.show(progress(3.0, 5000))
    shown = written.getvalue()
    assert "flights: RUNNING, 3.0 s" in shown
    assert "5,000" in shown
    assert "2,000" in shown, "(5,000 - 1,000) records in 2 s"
    assert "1 running, 1 finished" in shown


def test_a_terminal_shows_the_operators_that_are_backpressured_now() -> None:
    """Since the report before: 1,000 ms more, of which 750 backpressured and 150 busy."""
    target, written = console(terminal=True)
    later = replace(SOURCE, idle_time_ms=100, busy_time_ms=1050, backpressured_time_ms=850)
    with JobDisplay(target) as display:
        display.show(progress(1.0))
        written.seek(0)
        written.truncate()
        display.show(replace(progress(2.0), vertices=(later, SINK)))
    shown = written.getvalue()
    assert "backpressured" in shown
    assert "75%" in shown
    assert "15%" in shown


def test_another_attempt_counts_anew() -> None:
    target, written = console(terminal=True)
    with JobDisplay(target) as display:
        display.show(progress(1.0, 9000))
        written.seek(0)
        written.truncate()
        display.show(replace(progress(2.0, 500), attempt=1))
    assert "250" in written.getvalue(), "500 records in the 2 s of the job, and none less"


def test_a_pipe_gets_a_line_of_progress_now_and_then() -> None:
    target, written = console(terminal=False)
    with JobDisplay(target) as display:
        for tenth in range(51):
            display.show(progress(tenth / 10))
    lines = written.getvalue().splitlines()
    assert len(lines) == 1 + int(5.0 / LINE_INTERVAL_S)
    assert lines[0] == (
        "flights: RUNNING, 0.0 s; Source: flights: 1,000 in, 1,000 out; Reduce: 900 in, 0 out"
    )


def test_the_next_job_starts_anew() -> None:
    target, written = console(terminal=False)
    display = JobDisplay(target)
    for job_id in ("first", "second"):
        with display:
            display.show(progress(0.5, job_id=job_id))
    assert len(written.getvalue().splitlines()) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_the_output_of_workers_is_shown_unchanged(terminal: bool) -> None:
    target, written = console(terminal=terminal)
    with JobDisplay(target) as display:
        display.show_output("worker-1", "[bold]not markup[/bold] :smile: " + "x" * 200)
        display.show_output("coordinator", "INFO chatter")
    assert "worker-1 | [bold]not markup[/bold] :smile: " + "x" * 200 in written.getvalue()
    assert "chatter" not in written.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_address_of_the_page_stays_in_one_line(terminal: bool) -> None:
    target, written = console(terminal=terminal)
    address = "http://127.0.0.1:8081/#token=" + "x" * 200
    with JobDisplay(target) as display:
        display.show_page(address)
    shown = address if terminal else "http://127.0.0.1:8081/"
    assert f"page: {shown}  (REST: /v1, metrics: /metrics)\n" in written.getvalue()
    assert terminal or "token" not in written.getvalue(), "a log must not keep it"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_output_of_workers_does_not_control_the_terminal(terminal: bool) -> None:
    target, written = console(terminal=terminal)
    with JobDisplay(target) as display:
        display.show_output("worker-1", "\x1b]0;title\x07 \x1b[31m\ud800\rover")
    assert r"worker-1 | \x1b]0;title\x07 \x1b[31m\ud800\rover" in written.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_names_are_neither_markup_nor_commands(terminal: bool) -> None:
    target, written = console(terminal=terminal)
    named = replace(progress(1.0), name="[bold]job[/bold]\x1b[2J")
    vertex = replace(SINK, name="[red]Reduce\x07")
    with JobDisplay(target) as display:
        display.show(replace(named, vertices=(SOURCE, vertex)))
    shown = written.getvalue()
    assert r"[bold]job[/bold]\x1b[2J: RUNNING" in shown
    assert r"[red]Reduce\x07" in shown


def test_the_result_has_a_row_for_each_subtask() -> None:
    row = {
        "vertex": 0,
        "name": "Reduce (1/2)",
        "index": 0,
        "parallelism": 2,
        "worker_id": "worker-0",
        "records_in": 3000,
        "records_out": 0,
        "bytes_in": 2_500_000,
        "bytes_out": 0,
        "idle_time_ms": 1240,
        "busy_time_ms": 700,
        "backpressured_time_ms": 60,
        "metrics": {},
    }
    result = JobResult("job", "flights", "FINISHED", 2.0, ("worker-0",), (row,), {})
    target, written = console(terminal=False)
    target.print(result_table(result))
    shown = written.getvalue()
    for text in ("flights: FINISHED after 2.00 s", "Reduce (1/2)", "worker-0", "1,500", "2.5"):
        assert text in shown
    assert "35%" in shown, "of its time it was busy"
    assert "3%" in shown, "of its time it was backpressured"

"""The screens of ``flinknet top``: a cluster's jobs, a job's operators and an operator's subtasks.

All content comes from ``/api/v1/page``, which the web page uses, too. The next request starts a
while after the previous answer. If the coordinator cannot be reached, the screen says so and keeps
the last content, dimmed. A job that has ended stays visible as long as the coordinator knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import DataTable, Footer, Static

from flinknet.cli.diagnose import verdict_in_words
from flinknet.cli.top_tables import (
    BAD,
    GOOD,
    Table,
    fitting,
    jobs_table,
    operators_table,
    subtasks_table,
)
from flinknet.errors import FlinknetError
from flinknet.texts import printable, text_of

__all__ = ["Top"]

PAUSE_S = 0.5
"""Seconds between an answer and the next request."""

PATIENCE_S = 3.0
"""Seconds to wait for an answer.

The client itself retries for much longer, because a lost coordinator may come back.
"""

_Json = Mapping[str, Any]

_VERDICTS = {"troubled": f"bold {BAD}", "healthy": GOOD}


class Rows(DataTable[Text]):
    """A table with rows that can be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open")]

    def __init__(self) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True, header_height=2)
        self.opens = True
        """Whether the rows can be opened."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable opening in the table of subtasks, which is the innermost."""
        return action != "select_cursor" or self.opens


class Top(App[None]):
    """The terminal application for one cluster; ``read`` reads a path of its coordinator."""

    TITLE = "flinknet top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
        Static { padding: 0 1; }
        Rows { height: 1fr; }
        Rows.old { opacity: 50%; }
        #note { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "End"),
        ("escape", "back", "Back"),
    ]

    def __init__(self, read: Callable[[str], Awaitable[Any]], job_id: str | None = None) -> None:
        super().__init__()
        self._read = read
        self._job_id = job_id
        self._vertex_id: str | None = None
        """The shown operator; None in the table of operators, and of jobs."""
        self._table: Table | None = None
        """The last table, with all its columns."""
        self._labels: tuple[str, ...] = ()
        """The headings of the displayed columns."""
        self._told_at: datetime | None = None
        """Time of the last answer."""
        self._head = Static(id="head", markup=False)
        self._verdict = Static(id="verdict", markup=False)
        self._rows = Rows()
        self._note = Static(id="note", markup=False)

    def compose(self) -> ComposeResult:
        """Lay out the head, the verdict, the table, and the note about columns without room."""
        yield self._head
        yield self._verdict
        yield self._rows
        yield self._note
        yield Footer()

    def on_mount(self) -> None:
        """Start polling in a background worker, so that keys work while an answer is pending."""
        self.run_worker(self.follow(), group="follow")

    def on_resize(self, event: Resize) -> None:
        """Choose the columns anew, because others may fit now."""
        self._fill(event.size.width)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable going back from the table of jobs."""
        return action != "back" or self._job_id is not None

    async def action_back(self) -> None:
        """Go back from subtasks to operators, or from operators to jobs."""
        if self._vertex_id is not None:
            self._vertex_id = None
        else:
            self._job_id = None
        self.run_worker(self.look(), exclusive=True)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the job or the operator of the selected row."""
        chosen = event.row_key.value
        if self._job_id is None:
            self._job_id = chosen
        elif self._vertex_id is None:
            self._vertex_id = chosen
        self.run_worker(self.look(), exclusive=True)

    async def follow(self) -> None:
        """Show the present state repeatedly, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(PAUSE_S)

    async def look(self) -> None:
        """Show the present state, or that the coordinator cannot be reached."""
        query = {"job": self._job_id, "vertex": self._vertex_id}
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        told, why = None, ""
        try:
            async with asyncio.timeout(PATIENCE_S):
                told = await self._read(f"/api/v1/page?{asked}")
        except FlinknetError as error:
            why = text_of(error)
        except TimeoutError:
            why = f"no answer for {PATIENCE_S:g} s"
        if not self._rows.is_attached:
            return  # the application has ended meanwhile
        if told is None:
            self._say_not_reached(why)
        elif query == {"job": self._job_id, "vertex": self._vertex_id}:
            # Otherwise the answer is late: another table has been opened meanwhile.
            self._told_at = datetime.now(UTC).astimezone()
            self._rows.remove_class("old")
            self._show(told)
            self._rows.opens = self._vertex_id is None
            self.refresh_bindings()

    def _say_not_reached(self, why: str) -> None:
        since = f" since {self._told_at:%H:%M:%S}" if self._told_at is not None else ""
        _say(self._verdict, f"not reached{since}: {why}", f"bold {BAD}")
        self._rows.add_class("old")

    def _show(self, told: _Json) -> None:
        cluster, job = told["cluster"], told.get("job")
        slots = f"{cluster['slots-available']} of {cluster['slots-total']} slots free"
        head = f"flinknet {told['version']}: {_counted(cluster['taskmanagers'], 'worker')}, {slots}"
        if job is None:
            gone = "" if self._job_id is None else f"job {self._job_id} is no longer known; "
            self._job_id = self._vertex_id = None
            _say(self._head, head)
            _say(self._verdict, gone + _counted(len(told["jobs"]), "job"))
            self._table = jobs_table(told["jobs"])
            self._fill(self.size.width)
            return
        diagnosis = told["diagnosis"]
        self._say_verdict(job, diagnosis, told["exceptions"]["entries"])
        culprits = [finding["culprit"] for finding in diagnosis["findings"]]
        head = f"{head}; {job['name']}: {job['state']}, {job['seconds']:,.0f} s"
        vertex = told.get("vertex")
        if vertex is None:
            _say(self._head, head)
            self._table = operators_table(
                job["vertices"], {culprit["vertex_id"] for culprit in culprits}
            )
        else:
            names = [row["name"] for row in job["vertices"] if row["id"] == self._vertex_id]
            _say(self._head, "; ".join([head, *names]))
            rows = [dict(zip(vertex["columns"], row, strict=True)) for row in vertex["rows"]]
            tasks = [task for culprit in culprits for task in culprit["tasks"]]
            mine = {task["subtask"] for task in tasks if task["vertex_id"] == self._vertex_id}
            self._table = subtasks_table(rows, mine)
        self._fill(self.size.width)

    def _say_verdict(self, job: _Json, diagnosis: _Json, failures: Sequence[_Json]) -> None:
        verdict = diagnosis["verdict"]
        if not job["is_over"]:
            said = f"{verdict_in_words(verdict)}: {diagnosis['sentence']}"
            _say(self._verdict, said, _VERDICTS.get(verdict, ""))
        elif job["state"] == "FAILED" and failures:
            _say(self._verdict, f"the job has failed: {_cause(failures[0])}", f"bold {BAD}")
        else:
            _say(self._verdict, "the job has ended")

    def _fill(self, width: int) -> None:
        """Fill the table anew; the cursor stays on its row if that still exists."""
        rows = self._rows
        if self._table is None:
            return
        table, left_out = fitting(self._table, width - rows.styles.scrollbar_size_vertical)
        labels = tuple(column.heading for column in table.columns)
        key = None
        if rows.row_count:
            key = rows.coordinate_to_cell_key(rows.cursor_coordinate).row_key.value
        if labels != self._labels:
            rows.clear(columns=True)
            rows.add_columns(*(column.label for column in table.columns))
            self._labels = labels
        rows.clear()
        for row_key, cells in table.rows:
            rows.add_row(*cells, key=row_key)
        keys = [row_key for row_key, _ in table.rows]
        rows.move_cursor(row=keys.index(key) if key in keys else 0)
        self._note.display = bool(left_out)
        _say(self._note, f"in a wider terminal also: {', '.join(left_out)}")


def _say(where: Static, text: str, style: str = "") -> None:
    where.update(Text(printable(text), style))


def _cause(failure: _Json) -> str:
    """Return the last line of a traceback, or the whole text of a failure without one."""
    lines = failure["stacktrace"].strip().splitlines()
    last = next((line for line in reversed(lines) if not line.startswith(" ")), "")
    return f"{failure['taskName']}: {last}" if failure["taskName"] else last


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"

"""What ``flinknet top`` shows: the jobs of a cluster, the operators of a job, or their subtasks.

Everything comes from the answer that the web page asks for, ``/api/v1/page``, a while after the one
before. What cannot be asked at the moment is said, and what was told before stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable, Footer, Static

from flinknet.errors import FlinknetError
from flinknet.texts import printable

__all__ = ["Top"]

PAUSE_S = 0.5
"""Between an answer and the next question."""

_Json = Mapping[str, Any]

_JOBS = ("job", "state", "for", "tasks run", "id")
_OPERATORS = (
    *("operator", "subtasks", "state", "busy", "backpressured"),
    *("records in/s", "records out/s", "bytes in/s", "bytes out/s", "records in", "records out"),
)
_SUBTASKS = (
    *("subtask", "worker", "state", "busy", "backpressured", "idle", "level"),
    *("records in/s", "records out/s", "in pool", "out pool", "backlog", "credit"),
)


class Top(App[None]):
    """One cluster. ``read`` asks its coordinator for a path."""

    CSS = "#head { padding: 0 1; } #verdict { padding: 0 1; } DataTable { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "End"),
        ("escape", "back", "Back"),
    ]

    def __init__(self, read: Callable[[str], Awaitable[Any]], job_id: str | None = None) -> None:
        super().__init__()
        self._read = read
        self._job_id = job_id
        self._vertex_id: str | None = None
        self._shown: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """A head, a sentence, a table."""
        yield Static(id="head", markup=False)
        yield Static(id="verdict", markup=False)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer()

    async def on_mount(self) -> None:
        """Ask for the first time."""
        await self.ask()

    async def action_back(self) -> None:
        """From subtasks to operators, and from there to jobs."""
        if self._vertex_id is not None:
            self._vertex_id = None
        else:
            self._job_id = None
        self.run_worker(self._look(), exclusive=True)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Go into the job or the operator of the row."""
        chosen = event.row_key.value
        if self._job_id is None:
            self._job_id = chosen
        elif self._vertex_id is None:
            self._vertex_id = chosen
        self.run_worker(self._look(), exclusive=True)

    async def ask(self) -> None:
        """Show how it stands, and ask again after a while."""
        await self._look()
        self.set_timer(PAUSE_S, self.ask)

    async def _look(self) -> None:
        query = {"job": self._job_id, "vertex": self._vertex_id}
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        try:
            told = await self._read(f"/api/v1/page?{asked}")
        except FlinknetError as error:
            self._say("verdict", f"not reached: {error}")
            return
        if query == {"job": self._job_id, "vertex": self._vertex_id}:
            self._show(told)

    def _show(self, told: _Json) -> None:
        cluster, job = told["cluster"], told.get("job")
        slots = f"{cluster['slots-available']} of {cluster['slots-total']} slots free"
        head = f"flinknet {told['version']}: {cluster['taskmanagers']} workers, {slots}"
        if job is None:
            self._job_id = self._vertex_id = None
            self._say("head", head)
            self._say("verdict", f"{len(told['jobs'])} jobs")
            self._fill(_JOBS, [(row["jid"], _job(row)) for row in told["jobs"]])
            return
        self._say("head", f"{head}; {job['name']}: {job['state']}, {job['seconds']:,.0f} s")
        self._say("verdict", f"{told['diagnosis']['verdict']}: {told['diagnosis']['sentence']}")
        vertex = told.get("vertex")
        if vertex is None:
            self._fill(_OPERATORS, [(row["id"], _operator(row)) for row in job["vertices"]])
        else:
            rows = [dict(zip(vertex["columns"], row, strict=True)) for row in vertex["rows"]]
            self._fill(_SUBTASKS, [(str(row["subtask"]), _subtask(row)) for row in rows])

    def _say(self, where: str, text: str) -> None:
        self.query_one(f"#{where}", Static).update(printable(text))

    def _fill(self, columns: tuple[str, ...], rows: Sequence[tuple[str, list[str]]]) -> None:
        """Write the table anew; the cursor stays where it is if it is the same table."""
        table = self.query_one(DataTable)
        cursor = table.cursor_row if columns == self._shown else 0
        if columns != self._shown:
            table.clear(columns=True)
            table.add_columns(*columns)
            self._shown = columns
        table.clear()
        for key, cells in rows:
            table.add_row(*(Text(printable(cell)) for cell in cells), key=key)
        table.move_cursor(row=min(cursor, max(0, len(rows) - 1)))


def _job(row: _Json) -> list[str]:
    tasks = row["tasks"]
    runs = f"{tasks['running']} of {tasks['total']}"
    return [row["name"], row["state"], f"{row['duration'] / 1000:,.0f} s", runs, row["jid"]]


def _operator(row: _Json) -> list[str]:
    is_live = row["reported"] > 0
    return [
        row["name"],
        str(row["parallelism"]),
        row["state"],
        *(_share(row[name] if is_live else None) for name in ("busy", "backpressured")),
        *(_number(row[f"{name}_per_s"] if is_live else None) for name in _MOVED),
        *(_number(row[name]) for name in ("records_in", "records_out")),
    ]


def _subtask(row: _Json) -> list[str]:
    return [
        str(row["subtask"] + 1),
        row["worker"],
        row["state"],
        *(_share(row[name]) for name in ("busy", "backpressured", "idle")),
        row["level"] or "-",
        *(_number(row[f"{name}_per_s"]) for name in ("records_in", "records_out")),
        *(_share(row[name]) for name in ("in_pool", "out_pool")),
        *(_number(row[name]) for name in ("backlog", "credit_announced")),
    ]


_MOVED = ("records_in", "records_out", "bytes_in", "bytes_out")


def _share(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"

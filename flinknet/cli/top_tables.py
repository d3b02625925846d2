"""The tables of ``flinknet top``: their rows, their colours and the choice of columns.

A colour only repeats information that the text has, too. A mostly busy task is red. Backpressure is
amber from Flink's LOW on, and bold from its HIGH on. The culprit also has a mark before its name.
Columns that do not fit into the terminal are left out and named: a truncated number would read as a
different number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.text import Text

from flinknet.texts import printable

__all__ = ["BAD", "GOOD", "Table", "fitting", "jobs_table", "operators_table", "subtasks_table"]

_Json = Mapping[str, Any]

GOOD, BAD, HELD_UP = "#6fcf8f", "#ff6f61", "#f0a030"
"""Colours that are readable on a dark ground and distinguishable to colour-blind users.

They differ in lightness.
"""

CULPRIT = "► "
"""Mark before the name of the culprit that holds the job up."""

BUSY, BACKPRESSURED = 0.8, 0.1
"""Shares of the time above which a value gets a colour: nearly all of it, and Flink's OK."""

HIGH = 0.5
"""Flink's HIGH: backpressured for more than half of the time."""

NAME_SHARE = 3
"""The first column may take one part in this many of the width, or more if the others leave it."""

PADDING = 2
"""Cells of padding per column."""

_STATES = {
    "RUNNING": GOOD,
    "FINISHED": GOOD,
    "FAILED": f"bold {BAD}",
    "FAILING": f"bold {BAD}",
    "CANCELED": HELD_UP,
    "CANCELLING": HELD_UP,
    "RESTARTING": HELD_UP,
}


class Column(NamedTuple):
    """A column with a heading of one or two lines; numbers are right-aligned."""

    heading: str
    is_number: bool = True

    @property
    def name(self) -> str:
        """The heading in one line."""
        return self.heading.replace("\n", " ")

    @property
    def label(self) -> Text:
        """The heading as displayed."""
        return Text(self.heading, justify="right" if self.is_number else "left")


class Table(NamedTuple):
    """Columns, the most informative first, and rows with their keys."""

    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Text]]]

    def widths(self) -> list[int]:
        """Return the width of each column without its padding."""
        return [
            max(
                *map(len, column.heading.split("\n")),
                *(row[place].cell_len for _, row in self.rows),
                0,
            )
            for place, column in enumerate(self.columns)
        ]


_JOBS = (
    Column("job", is_number=False),
    Column("state", is_number=False),
    Column("for"),
    Column("tasks\nrun"),
    Column("id", is_number=False),
)
_OPERATORS = (
    Column("operator", is_number=False),
    Column("sub-\ntasks"),
    Column("state", is_number=False),
    Column("busy"),
    Column("back-\npressured"),
    Column("records\nin/s"),
    Column("records\nout/s"),
    Column("bytes\nin/s"),
    Column("bytes\nout/s"),
    Column("records\nin"),
    Column("records\nout"),
)
_SUBTASKS = (
    Column("subtask"),
    Column("worker", is_number=False),
    Column("state", is_number=False),
    Column("busy"),
    Column("back-\npressured"),
    Column("idle"),
    Column("level", is_number=False),
    Column("records\nin/s"),
    Column("in\npool"),
    Column("out\npool"),
    Column("records\nout/s"),
    Column("backlog"),
    Column("credit"),
)


def jobs_table(jobs: Sequence[_Json]) -> Table:
    """Return the table of a cluster's jobs, keyed by job id."""
    return Table(_JOBS, [(row["jid"], _styled(_JOBS, _job(row))) for row in jobs])


def operators_table(vertices: Sequence[_Json], culprits: set[str]) -> Table:
    """Return the table of a job's operators, keyed by vertex id."""
    return Table(
        _OPERATORS,
        [
            (row["id"], _styled(_OPERATORS, _operator(row, is_culprit=row["id"] in culprits)))
            for row in vertices
        ],
    )


def subtasks_table(subtasks: Sequence[_Json], culprits: set[int]) -> Table:
    """Return the table of an operator's subtasks, keyed by index."""
    return Table(
        _SUBTASKS,
        [
            (
                str(row["subtask"]),
                _styled(_SUBTASKS, _subtask(row, is_culprit=row["subtask"] in culprits)),
            )
            for row in subtasks
        ],
    )


def fitting(table: Table, width: int) -> tuple[Table, Sequence[str]]:
    """Return the table with as many leading columns as fit, and the names of the others.

    A first column that is too wide is truncated.
    """
    first, *others = (width_of + PADDING for width_of in table.widths())
    room = width - min(first, max(width // NAME_SHARE, width - sum(others)))
    shown, taken = 1, 0
    for other in others:
        if taken + other > room:
            break
        shown, taken = shown + 1, taken + other
    rows = []
    for key, (name, *cells) in table.rows:
        cut = name.copy()
        cut.truncate(max(1, width - taken - PADDING), overflow="ellipsis")
        rows.append((key, [cut, *cells[: shown - 1]]))
    return (
        Table(table.columns[:shown], rows),
        [column.name for column in table.columns[shown:]],
    )


def _job(row: _Json) -> list[Text]:
    tasks = row["tasks"]
    return [
        _text(row["name"]),
        _state(row["state"]),
        _text(f"{row['duration'] / 1000:,.0f} s"),
        _text(f"{tasks['running']} of {tasks['total']}"),
        _text(row["jid"]),
    ]


def _operator(row: _Json, *, is_culprit: bool) -> list[Text]:
    is_live = row["reported"] > 0
    return [
        _name(row["name"], is_culprit=is_culprit),
        _text(str(row["parallelism"])),
        _state(row["state"]),
        _busy(row["busy"] if is_live else None),
        _backpressured(row["backpressured"] if is_live else None),
        *(_number(row[f"{name}_per_s"] if is_live else None) for name in _MOVED),
        *(_number(row[name]) for name in ("records_in", "records_out")),
    ]


def _subtask(row: _Json, *, is_culprit: bool) -> list[Text]:
    return [
        _name(str(row["subtask"] + 1), is_culprit=is_culprit),
        _text(row["worker"]),
        _state(row["state"]),
        _busy(row["busy"]),
        _backpressured(row["backpressured"]),
        _share(row["idle"]),
        _text(row["level"] or "-"),
        _number(row["records_in_per_s"]),
        *(_share(row[name]) for name in ("in_pool", "out_pool")),
        _number(row["records_out_per_s"]),
        *(_number(row[name]) for name in ("backlog", "credit_announced")),
    ]


_MOVED = ("records_in", "records_out", "bytes_in", "bytes_out")


def _styled(columns: Sequence[Column], cells: Sequence[Text]) -> list[Text]:
    for column, cell in zip(columns, cells, strict=True):
        cell.justify = "right" if column.is_number else "left"
    return list(cells)


def _text(said: str, style: str = "") -> Text:
    return Text(printable(said), style)


def _name(name: str, *, is_culprit: bool) -> Text:
    return _text(CULPRIT + name, f"bold {BAD}") if is_culprit else _text(name)


def _state(state: str) -> Text:
    return _text(state, _STATES.get(state, ""))


def _busy(part: float | None) -> Text:
    return _share(part, f"bold {BAD}" if part is not None and part >= BUSY else "")


def _backpressured(part: float | None) -> Text:
    if part is None or part <= BACKPRESSURED:
        return _share(part)
    return _share(part, f"bold {HELD_UP}" if part > HIGH else HELD_UP)


def _share(part: float | None, style: str = "") -> Text:
    return _text("-" if part is None else f"{part:.0%}", style)


def _number(value: float | None) -> Text:
    return _text("-" if value is None else f"{value:,.0f}")

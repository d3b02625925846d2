"""The tables of ``flinknet top``: cells, colours, and fitting to the terminal."""

from __future__ import annotations

from typing import Any

import pytest
from rich.text import Text

from flinknet.cli.top_tables import (
    BAD,
    GOOD,
    HELD_UP,
    Table,
    fitting,
    jobs_table,
    operators_table,
    subtasks_table,
)

OPERATOR: dict[str, Any] = {
    "id": "a1",
    "name": "Slow lookup",
    "parallelism": 2,
    "state": "RUNNING",
    "reported": 2,
    "busy": 0.97,
    "backpressured": 0.0,
    "records_in_per_s": 1_234.4,
    "records_out_per_s": 0.0,
    "bytes_in_per_s": 10_000.0,
    "bytes_out_per_s": 20_000.0,
    "records_in": 1_000_000,
    "records_out": 7,
}
SUBTASK: dict[str, Any] = {
    "subtask": 0,
    "worker": "worker-0",
    "state": "RUNNING",
    "busy": None,
    "backpressured": None,
    "idle": None,
    "level": None,
    "records_in_per_s": None,
    "records_out_per_s": None,
    "in_pool": 0.5,
    "out_pool": 1.25,
    "backlog": 3,
    "credit_announced": 2,
}


def cells(table: Table, row: int = 0) -> dict[str, Text]:
    names = [column.name for column in table.columns]
    return dict(zip(names, table.rows[row][1], strict=True))


def test_a_busy_culprit_is_highlighted() -> None:
    found = cells(operators_table([OPERATOR], {"a1"}))
    assert (found["operator"].plain, found["operator"].style) == ("► Slow lookup", f"bold {BAD}")
    assert (found["busy"].plain, found["busy"].style) == ("97%", f"bold {BAD}")
    assert (found["state"].plain, found["state"].style) == ("RUNNING", GOOD)
    assert found["records in/s"].plain == "1,234"
    assert found["records in"].justify == "right"
    assert found["operator"].justify == "left"


@pytest.mark.parametrize(
    ("share", "style"), [(0.1, ""), (0.11, HELD_UP), (0.5, HELD_UP), (0.51, f"bold {HELD_UP}")]
)
def test_backpressure_has_a_colour_from_flinks_levels_on(share: float, style: str) -> None:
    [(key, row)] = operators_table([{**OPERATOR, "backpressured": share}], set()).rows
    assert key == "a1"
    assert row[4].style == style


def test_an_operator_without_reports_has_counts_but_no_rates() -> None:
    found = cells(operators_table([{**OPERATOR, "reported": 0}], set()))
    assert [found[name].plain for name in ("operator", "busy", "records in/s", "records in")] == [
        "Slow lookup",
        "-",
        "-",
        "1,000,000",
    ]
    assert found["busy"].style == ""


def test_a_subtask_is_known_by_its_number_from_one_on() -> None:
    table = subtasks_table([SUBTASK, {**SUBTASK, "subtask": 1}], {1})
    assert [key for key, _ in table.rows] == ["0", "1"]
    assert [cells(table, row)["subtask"].plain for row in range(2)] == ["1", "► 2"]
    assert (cells(table)["level"].plain, cells(table)["in pool"].plain) == ("-", "50%")


def test_a_job_says_how_many_of_its_tasks_run_and_nothing_unprintable() -> None:
    job = {
        "jid": "0815",
        "name": "orders\x1b[2J",
        "state": "FAILED",
        "duration": 61_000,
        "tasks": {"running": 3, "total": 4},
    }
    found = cells(jobs_table([job]))
    assert "\x1b" not in found["job"].plain
    assert (found["for"].plain, found["tasks run"].plain) == ("61 s", "3 of 4")
    assert found["state"].style == f"bold {BAD}"


def test_columns_that_do_not_fit_are_left_out_whole_and_named() -> None:
    table = operators_table([OPERATOR], set())
    whole, none = fitting(table, 200)
    assert (len(whole.columns), none) == (11, [])
    some, left_out = fitting(table, 60)
    assert [column.name for column in some.columns] == [
        "operator",
        "sub- tasks",
        "state",
        "busy",
        "back- pressured",
        "records in/s",
    ]
    assert left_out == ["records out/s", "bytes in/s", "bytes out/s", "records in", "records out"]
    assert len(some.rows[0][1]) == 6
    assert sum(some.widths()) + 2 * 6 <= 60


def test_a_long_name_is_cut_so_that_numbers_fit() -> None:
    table = operators_table([{**OPERATOR, "name": "Map -> " * 30}], {"a1"})
    shown, left_out = fitting(table, 80)
    assert shown.rows[0][1][0].plain.startswith("► Map -> ")
    assert shown.rows[0][1][0].plain.endswith("…")
    assert len(shown.columns) > 4
    assert left_out
    assert sum(shown.widths()) + 2 * len(shown.columns) <= 80


def test_a_table_without_rows_is_as_wide_as_its_headings() -> None:
    shown, left_out = fitting(jobs_table([]), 80)
    assert (len(shown.columns), left_out, shown.rows) == (5, [], [])


@pytest.mark.parametrize("width", [1, 5, 20])
def test_a_terminal_that_is_far_too_narrow_has_the_names(width: int) -> None:
    shown, _ = fitting(operators_table([OPERATOR], set()), width)
    assert shown.columns[0].name == "operator"

"""A table on a narrow terminal: numbers keep their digits, names wrap."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.text import Text

from flinknet.cluster.launch.fitting_table import FittingTable

NUMBERS = ("records in", "records out", "bytes in", "bytes out")
VALUES = ("1,234,567,890", "9,876,543,210", "123,456,789,012", "210,987,654,321")


def shown(width: int) -> list[str]:
    table = FittingTable(title=Text("job"), names=("subtask",), numbers=NUMBERS)
    table.add_row("Source: a name that is long -> Map (1/2)", *VALUES, line_below=True)
    table.add_row("all", *VALUES)
    written = io.StringIO()
    Console(file=written, width=width, color_system=None).print(table)
    return written.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
def test_every_digit_is_shown_at_every_width(width: int) -> None:
    lines = shown(width)
    text = "\n".join(lines)
    assert all(text.count(value) == 2 for value in VALUES)
    assert all(text.count(heading) == 1 for heading in NUMBERS)
    assert "…" not in text
    assert max(map(len, lines)) <= width
    assert text.count("job") == 1, "the title stands once"


def test_a_wide_terminal_gets_one_table() -> None:
    (heading,) = [line for line in shown(200) if "subtask" in line]
    assert re.split(r" {2,}", heading.strip()) == ["subtask", *NUMBERS]


def test_each_of_several_narrow_tables_names_its_rows() -> None:
    lines = shown(60)
    assert sum("subtask" in line for line in lines) == sum("all " in line for line in lines) > 1


def test_a_table_without_numbers_is_a_table() -> None:
    table = FittingTable(names=("name",), numbers=())
    table.add_row("one")
    written = io.StringIO()
    Console(file=written, width=20, color_system=None).print(table)
    assert written.getvalue().split() == ["name", "─" * 6, "one"]

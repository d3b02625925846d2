"""The table of Flink's scenarios in tests/README.md agrees with the tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

SCENARIOS = {
    "A": [*range(1, 23), 24],
    "B": [*range(1, 16), 17, *range(19, 31)],
    "C": [*range(1, 8), *range(9, 17), *range(18, 23)],
    "D": [*range(1, 8), *range(9, 18)],
    "E": [*range(1, 17)],
    "F": [*range(1, 19)],
    "G": [1, *range(3, 16), *range(17, 20), *range(21, 25)],
    "H": [*range(1, 8)],
    "I": [*range(1, 12), *range(13, 16)],
    "J": [*range(1, 4), *range(5, 10), *range(11, 15)],
    "K": [*range(1, 7), *range(8, 11), *range(12, 24)],
    "L": [1, *range(3, 9)],
    "M": [*range(1, 6)],
    "N": [*range(1, 11)],
    "O": [*range(1, 4)],
    "P": [*range(2, 5)],
    "Q": [*range(1, 6)],
    "R": [*range(1, 5), *range(6, 9)],
    "S": [*range(1, 6)],
    "V": [*range(3, 8)],
}
"""The recorded scenarios of Flink's tests, by group; some numbers were left out."""

GROUPS = "".join(SCENARIOS)
ROW = re.compile(rf"^\| ([{GROUPS}]\d.*?) \| (.+) \|$", re.MULTILINE)
ONE = re.compile(rf"\b([{GROUPS}])(\d{{1,2}})\b")
RANGE = re.compile(rf"\b([{GROUPS}])(\d{{1,2}})(?: to |-)\1(\d{{1,2}})\b")
INVARIANTS = re.compile(r"[Ii]nvariants? [IL]\d+(?:(?:, | and )[IL]\d+)*")
"""Invariants have names of their own, some of which look like scenarios."""


def scenarios_in(text: str) -> set[str]:
    """Return every scenario that a text names, ranges included."""
    text = INVARIANTS.sub("", text)
    found = {f"{group}{number}" for group, number in ONE.findall(text)}
    for group, first, last in RANGE.findall(text):
        found |= {f"{group}{number}" for number in range(int(first), int(last) + 1)}
    return found


@cache
def scenarios_of(path: Path) -> set[str]:
    """Return every scenario that the docstrings of a file's tests name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found |= scenarios_in(ast.get_docstring(node) or "")
    return found


@cache
def table() -> dict[str, str]:
    """Return the table's text about each scenario."""
    rows = ROW.findall((TESTS / "README.md").read_text())
    said: dict[str, str] = {}
    for head, text in rows:
        for scenario in scenarios_in(head):
            assert scenario not in said, f"{scenario} has two rows"
            said[scenario] = text
    return said


def files_in(text: str) -> list[str]:
    """Return the test files that a row names."""
    return re.findall(r"`([\w/]+\.py)`", text)


def test_every_scenario_has_a_row() -> None:
    expected = {f"{group}{number}" for group, numbers in SCENARIOS.items() for number in numbers}
    assert set(table()) == expected


@pytest.mark.parametrize("group", SCENARIOS)
def test_every_file_in_the_table_names_its_scenarios(group: str) -> None:
    missing = [
        f"{scenario}: {name}"
        for scenario, text in table().items()
        if scenario[0] == group
        for name in files_in(text)
        if scenario not in scenarios_of(TESTS / name)
    ]
    assert not missing


def test_every_scenario_that_a_test_names_is_in_the_table_with_a_file() -> None:
    named = {
        scenario: path.relative_to(TESTS)
        for path in sorted(TESTS.rglob("test_*.py"))
        if path != Path(__file__)
        for scenario in scenarios_of(path)
    }
    missing = {
        scenario: str(path)
        for scenario, path in named.items()
        if not files_in(table().get(scenario, ""))
    }
    assert not missing


def test_ids_are_read_as_they_are_written() -> None:
    assert scenarios_in("G6 to G8, F4-F5: by meaning") == {"G6", "G7", "G8", "F4", "F5"}
    assert scenarios_in("C13, invariants I1, I2 and L1; I3") == {"C13", "I3"}

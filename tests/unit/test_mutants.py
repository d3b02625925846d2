"""Faults are planted where they matter, a seed repeats its sample, and a planted fault is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import __main__ as tool
from tests.mutants.planting import Mutant, mutants_of, sample

ROOT = Path(__file__).parents[2]
MEASURING = "measuring what 1 test files run"

MODULE = '''
"""A module, with 1 number in its docstring."""

STEP = 1


def fits(size: int, limit: int) -> bool:
    return size <= limit


def larger(one: int, other: int) -> int:
    return one if one > other else other


def counted_down(number: int) -> int:
    while number > 0:
        number -= STEP
    return number


def never_called(number: int) -> int:
    return number + 7
'''

TESTS = """
from parcel.limits import counted_down, fits, larger


def test_the_limit_itself_fits():
    assert fits(1, 1)


def test_more_than_the_limit_does_not_fit():
    assert not fits(2, 1)


def test_the_larger_one():
    assert (larger(1, 2), larger(2, 1)) == (2, 2)


def test_it_ends():
    assert counted_down(1) == 0
"""

LEFT_ALONE = '''
"""Return 1 if a < b."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import one

__all__ = ["name"]
type_of: Literal[1, 2]


class Shape(Protocol):
    def size(self) -> int:
        return 1


class Kind:
    __slots__ = ("a",)

    def __repr__(self) -> str:
        return "a" if self.a > 1 else "b"

    def check_invariants(self) -> None:
        assert self.a > 1
        self.check()

    def size(self, number: "int | 1") -> Literal[1]:
        assert number < 3, f"{number + 1}"
        log.debug("%s", number + 1)
        text = f"{number + 1}"
'''

KINDS = """
class Kind:
    def method(self, a, b):
        self.a = a + 1
        self.call()
        await_less(a[b:])
        for one in a:
            if one is b and not one:
                break
            continue
        if a < b:
            raise ValueError(f"{a + 1}", 5)
        self.b += 1
        del self.c
        return True
"""


def changes(source: str) -> set[tuple[str, str]]:
    return {(one.before, one.after) for one in mutants_of("flinknet/some.py", source.encode())}


def test_texts_annotations_and_assertions_are_left_alone() -> None:
    assert changes(LEFT_ALONE) == set()


def test_a_fault_changes_one_place() -> None:
    condition = "if one is b and not one:"
    assert changes(KINDS) == {
        ("self.a = a + 1", "pass"),
        ("self.a = a + 1", "self.a = a - 1"),
        ("self.a = a + 1", "self.a = a + 2"),
        ("self.a = a + 1", "self.a = a + 0"),
        ("self.call()", "pass"),
        ("await_less(a[b:])", "pass"),
        ("await_less(a[b:])", "await_less(a[(b) + 1:])"),
        (condition, "if one is not b and not one:"),
        (condition, "if one is b or not one:"),
        (condition, "if one is b and (one):"),
        (condition, "if not (one is b and not one):"),
        ("break", "continue"),
        ("continue", "break"),
        ("if a < b:", "if a <= b:"),
        ("if a < b:", "if not (a < b):"),
        ('raise ValueError(f"{a + 1}", 5)', "pass"),
        ("self.b += 1", "pass"),
        ("self.b += 1", "self.b -= 1"),
        ("self.b += 1", "self.b += 2"),
        ("self.b += 1", "self.b += 0"),
        ("del self.c", "pass"),
        ("return True", "return False"),
    }


def test_a_text_that_is_not_ascii_shifts_nothing() -> None:
    assert changes("a = 'größer' < b\n") == {("a = 'größer' < b", "a = 'größer' <= b")}


@pytest.fixture
def parcel(tmp_path: Path) -> Path:
    """Make a package with one module and its test file, which can be imported in forks."""
    for path, text in (
        ("pytest.ini", "[pytest]\nasyncio_default_fixture_loop_scope = function\n"),
        ("parcel/__init__.py", ""),
        ("parcel/limits.py", MODULE),
        ("tests/unit/test_limits.py", TESTS),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_a_seed_repeats_its_sample(parcel: Path) -> None:
    files = ["parcel/limits.py"]
    every = sample(files, parcel, 1, 1000)
    some = sample(files, parcel, 1, 5)
    assert some == sample(files, parcel, 1, 5)
    assert len(some) == 5
    assert set(some) < set(sample(files, parcel, 1, 8)) < set(every)
    assert {seed for seed in range(5) if sample(files, parcel, seed, 5) != some}
    assert [one.kind for one in every].count("changed return") == 4


def test_a_change_elsewhere_changes_no_sample(parcel: Path) -> None:
    before = [one.name for one in sample(["parcel/limits.py"], parcel, 1, 5)]
    (parcel / "parcel/limits.py").write_text(f"# A line more.\n{MODULE}")
    assert [one.name for one in sample(["parcel/limits.py"], parcel, 1, 5)] == before


NOTICED = {
    "return size < limit": "found",
    "while number >= 0:": "found",
    "number += STEP": "timed out",  # the loop never ends
    "return one if one >= other else other": "survived",  # two equal numbers are both the larger
    "return number - 7": "survived",  # no test calls the function
}


PROGRAM = """
import json
import sys
from functools import partial
from pathlib import Path

from tests.mutants import __main__ as tool
from tests.mutants.covering import Covering
from tests.mutants.forks import run_in_forks
from tests.mutants.planting import sample

root, chosen = Path(sys.argv[1]), set(sys.argv[2:])
covering = Covering(root, root / "build", "parcel", ["tests"])
said = list(covering.measure(1))
works = [
    (mutant, partial(tool.run_planted, mutant, covering.tests_of(mutant, (), 10.0), root))
    for mutant in sample(["parcel/limits.py"], root, 1, 1000)
    if mutant.after in chosen
]
ended = run_in_forks(works, 2, root / "build/logs")
print(json.dumps([said, {mutant.after: tool.verdict_of(how) for mutant, how in ended}]))
"""
"""A program of its own, because pytest does not run inside of itself."""


def run(parcel: Path, *chosen: str) -> tuple[list[str], dict[str, str]]:
    """Measure what the tests run, and plant the chosen faults; return what is said of both."""
    program = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(parcel), *chosen],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{parcel}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    said, verdicts = json.loads(program.stdout)
    return said, verdicts


NOTICED = {
    "return size < limit": "found",
    "while number >= 0:": "found",
    "number += STEP": "timed out",  # the loop never ends
    "return one if one >= other else other": "survived",  # two equal numbers are both the larger
    "return number - 7": "survived",  # no test calls the function
}


def test_a_planted_bug_is_found_and_an_equivalent_one_survives(parcel: Path) -> None:
    assert run(parcel, *NOTICED) == ([MEASURING], NOTICED)


def test_what_a_test_file_runs_is_measured_again_after_a_change(parcel: Path) -> None:
    assert [run(parcel)[0], run(parcel)[0]] == [[MEASURING], []]
    (parcel / "parcel/limits.py").write_text(f"{MODULE}\n# changed\n")
    assert [run(parcel)[0], run(parcel)[0]] == [[MEASURING], []]
    (parcel / "tests/unit/test_limits.py").write_text("def test_it() -> None:\n    assert False\n")
    failed = "left out: tests/unit/test_limits.py fails: tests/unit/test_limits.py::test_it"
    assert run(parcel)[0] == [MEASURING, failed]


def entry(mutant: Mutant) -> dict[str, str]:
    file, inside, before, after, _ = mutant.name
    return {"file": file, "inside": inside, "before": before, "after": after, "reason": "none"}


def test_entries_that_accept_nothing_are_reported(
    parcel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "ROOT", parcel)
    found, survived = sample(["parcel/limits.py"], parcel, 1, 2)
    results = [
        tool.Result(found, "found", 1, 0.0),
        tool.Result(survived, "accepted", 1, 0.0),
    ]
    gone = {**entry(survived), "before": "return one + other"}
    elsewhere = {**entry(survived), "file": "parcel/gone.py"}
    lines = tool.stale_entries([entry(found), entry(survived), gone, elsewhere], results)
    assert [line.rpartition(": there is ")[2].rpartition(": a ")[2] for line in lines] == [
        "test finds it: take it out",
        "no such fault any more: take it out",
        "no such fault any more: take it out",
    ]
    assert tool.score(results) == 100.0

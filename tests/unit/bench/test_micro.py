"""The steps of the family ``micro`` do their claimed work; their instructions are counted."""

from __future__ import annotations

import shutil
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.errors import BenchError
from bench.harness.row import Row
from bench.micro import counted
from bench.micro.family import MicroFamily, make_micro_row
from bench.micro.instructions import VALGRIND, Counter, perf_count, valgrind_count
from bench.micro.steps import STEPS, find_workload
from bench.micro.trial import Outcome, repeat
from bench.micro.workload import Workload

VARIANTS = [(step.name, variant) for step in STEPS for variant in step.variants]


@pytest.mark.parametrize(("step", "variant"), VARIANTS)
def test_a_workload_is_right_once_it_has_run_and_not_before(step: str, variant: str) -> None:
    workload = find_workload(step, variant)(300)
    assert workload.operations in (300, 304)
    if step != "deserialise":  # which checks its output by itself
        assert not workload.verify()
        workload = find_workload(step, variant)(300)
    workload.run()
    assert workload.verify()


def test_a_workload_is_repeated_until_the_time_is_over() -> None:
    sizes: list[int] = []

    def make(operations: int) -> Workload:
        sizes.append(operations)
        return Workload(operations, lambda: None, lambda: True, 2.0)

    outcome = repeat(make, 0.0)
    assert len(outcome.nanoseconds) == len(sizes) - 1 == 3
    assert sizes[1:] == [outcome.operations] * 3
    assert outcome.operations > sizes[0]
    assert outcome.verified
    assert outcome.records_per_buffer == 2.0


def test_one_repeat_that_is_wrong_is_not_verified() -> None:
    answers = iter([True, True, False, True])
    outcome = repeat(lambda n: Workload(n, lambda: None, lambda: next(answers)), 0.0)
    assert not outcome.verified


def test_the_counted_process_runs_what_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for mode in ("make", "run"):
        counted.main("buffer-in", "64 B", "20", mode)
    assert capsys.readouterr().out == "24\n24\n"


def test_numbers_are_found_in_what_the_counters_write() -> None:
    written = "# started\n\n1234567,,instructions:u,1000,100.00,,\n"
    assert perf_count(written, "") == 1_234_567
    summary = "==7== Command: true\n==7== \n==7== I   refs:      1,234,567\n"
    assert valgrind_count("", summary) == 1_234_567


@pytest.mark.parametrize("written", ["<not supported>,,instructions:u,0,100.00,,\n", ""])
def test_a_counter_without_a_number_does_not_count(written: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        perf_count(written, "")
    with pytest.raises(ValueError, match="invalid literal"):
        valgrind_count("", "")


def test_a_counter_that_fails_says_why() -> None:
    counter = Counter("sh", lambda file: ("sh", "-c", "echo broken >&2; exit 3"), perf_count)
    with pytest.raises(BenchError, match="sh failed:\nbroken"):
        counter.count(["true"])


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_valgrind_counts_more_for_more() -> None:
    short, _ = VALGRIND.count([sys.executable, "-ISc", "pass"])
    long, printed = VALGRIND.count([sys.executable, "-ISc", "print(sum(range(100000)))"])
    assert long > short + 1_000_000
    assert printed == "4999950000\n"


def row(instructions: float | None, counter: str | None) -> Row:
    runs = [Outcome([30.0, 10.0, 20.0], 500, True, 100.0), Outcome([40.0] * 3, 500, True, 100.0)]
    parameters = {"instructions_counted_by": counter}
    return make_micro_row("deserialise", "tuple", runs, instructions, parameters)


def test_a_row_is_made_of_medians_and_the_extremes_of_all_repeats() -> None:
    made = row(250.0, "perf")
    assert made.runs == [5e7, 2.5e7]
    assert made.cpu_s_per_million_records == 0.03
    expected = {"ns_per_operation": 30.0, "ns_low": 10.0, "ns_high": 40.0, "ns_per_buffer": 3_000.0}
    assert expected.items() <= made.parameters.items()
    assert made.verified


def test_the_table_says_if_nothing_counts_here(tmp_path: Path) -> None:
    for rows, said in (([row(250.0, "perf")], False), ([row(None, None)], True)):
        printed = StringIO()
        MicroFamily().print(rows, Console(file=printed, width=120))
        assert ("No instructions: neither perf" in printed.getvalue()) is said
        assert (" 250 " in printed.getvalue()) is not said
        MicroFamily().draw(rows, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")

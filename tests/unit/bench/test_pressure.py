"""The family ``pressure``: the pace of a sink, the account of a run, and its rows."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

from bench.pressure.family import PressureFamily, step_load_row, three_stages_row
from bench.pressure.step_load import StepLoad, Work
from bench.pressure.three_stages import POOLS, ThreeStages


def step_load(overflow_s: float | None = 5.0, lost: float = 0.5) -> StepLoad:
    made, worked = [0.0, 2.0, 4.0], [0.0, 1.0, 2.5]
    return StepLoad(2_500, 2.5, made, worked, [0.0, 0.0, lost], overflow_s, verified=True)


def stages(*full_s: float) -> ThreeStages:
    times = [0.0, 0.1, 0.2, 0.3]
    usage = {
        pool: [1.0 if at >= full else 0.5 for at in times]
        for pool, full in zip(POOLS, full_s, strict=True)
    }
    return ThreeStages(times, usage, 500.0)


def test_a_sink_works_at_its_pace_and_twice_as_fast_later() -> None:
    work = Work(10.0, faster_at_s=0.2)
    assert [work.done_at(0.0) for _ in range(4)] == pytest.approx([0.1, 0.2, 0.25, 0.3])
    assert work.done_at(0.34) == pytest.approx(0.35), "its timer was late"
    assert work.done_at(5.0) == pytest.approx(5.05), "it has had nothing to do"


def test_what_lies_in_between_is_what_was_made_and_neither_worked_off_nor_lost() -> None:
    assert step_load().buffered_mb == [0.0, 1.0, 1.0]


def test_a_pool_is_full_once_it_has_been() -> None:
    assert stages(0.1, 0.2, 0.3, 0.4).full_s("last, in") == 0.1
    assert stages(0.1, 0.2, 0.3, 0.4).full_s("source, out") is None


@pytest.mark.parametrize(
    ("full_s", "verified"),
    [((0.0, 0.1, 0.1, 0.3), True), ((0.1, 0.0, 0.2, 0.3), False), ((0.0, 0.1, 0.2, 0.9), False)],
)
def test_pools_have_to_become_full_one_after_the_other(
    full_s: tuple[float, ...], verified: bool
) -> None:
    assert three_stages_row([stages(*full_s)], {}).verified is verified


def test_the_table_and_the_figure_have_both_experiments(tmp_path: Path) -> None:
    rows = [
        step_load_row("none", [step_load()], {}),
        step_load_row("credit", [step_load(None, 0.0)], {}),
        three_stages_row([stages(0.0, 0.1, 0.2, 0.3)], {}),
    ]
    family, printed = PressureFamily(), StringIO()
    family.print(rows, Console(file=printed, width=120))
    cells = [line.split() for line in printed.getvalue().splitlines() if line.endswith("yes   ")]
    assert cells == [
        ["step-load", "none", "1.00", "1.0", "5.0", "0.5", "yes"],
        ["credit", "1.00", "1.5", "0.0", "yes"],
        ["three-stages", "credit", "0.50", "0.00", "0.10", "0.20", "0.30", "yes"],
    ]
    family.draw(rows, tmp_path / "pressure.png")
    height, width, _ = matplotlib.image.imread(tmp_path / "pressure.png").shape
    assert height > 200 < width

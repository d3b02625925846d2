"""Compared systems take turns, within a case or across cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.exchange.cases import CASES
from bench.harness.case import Case
from bench.harness.comparison import ComparingFamily, compare
from bench.harness.family import Selection
from bench.harness.pinning import Pinning
from bench.harness.system import Contestant
from bench.harness.trial import Measurement, Plan
from bench.peers.stream import SYSTEM

SYSTEMS = [replace(SYSTEM, name="a"), replace(SYSTEM, name="b")]
SELECTION = Selection((), (), Plan(runs=2, seconds=1.0, warm_up_s=0.0), Pinning(None, None))
A, B = "tuple a, tuple b", "long a, long b"


class Counted:
    """Progress that only counts the expected runs."""

    expected = 0

    def expect(self, runs: int) -> None:
        self.expected += runs

    def begin(self, run: str) -> None: ...

    def end(self) -> None: ...


@pytest.mark.parametrize(
    ("across_cases", "order"), [(False, [A, A, B, B]), (True, [A, B, A, B])], ids=["within", "all"]
)
def test_runs_take_turns_and_keep_their_rows(across_cases: bool, order: list[str]) -> None:
    ran: list[str] = []

    def run(contestant: Contestant, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
        ran.append(f"{case.name} {contestant.system.name}")
        return Measurement(len(ran), 1.0, 0.1, 0.1, True, {"run": len(ran)})

    progress = Counted()
    cases = CASES[:2]
    rows = compare("test", cases, SYSTEMS, SELECTION, progress, across_cases=across_cases, run=run)
    assert ", ".join(ran) == ", ".join(order)
    assert progress.expected == len(ran)
    assert [f"{row.case} {row.system}" for row in rows] == f"{A}, {B}".split(", ")
    for row in rows:
        name = f"{row.case} {row.system}"
        assert row.runs == [number + 1 for number, each in enumerate(ran) if each == name]


def test_a_family_compares_the_chosen_cases_and_peers_with_its_system() -> None:
    def run(contestant: Contestant, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
        return Measurement(1, 1.0, 0.1, 0.1, True, {})

    own, *peers = (replace(SYSTEM, name=name) for name in ("own", "a", "b"))
    family = ComparingFamily(CASES, own, peers, run=run)
    family.name = "test"
    assert list(family.cases) == [case.name for case in CASES]
    assert list(family.systems) == ["a", "b"]
    rows = family.run(replace(SELECTION, cases=("dict", "long"), against=("b",)), Counted())
    assert [f"{row.case} {row.system}" for row in rows] == [
        "long own",
        "long b",
        "dict own",
        "dict b",
    ]

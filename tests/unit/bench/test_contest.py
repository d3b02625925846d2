"""Systems take turns; absent and failing systems are handled."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from bench.cli import _require_verified
from bench.errors import BenchError, UnavailableError
from bench.harness.case import Case
from bench.harness.contest import Absence, absences, run_case
from bench.harness.pinning import Pinning
from bench.harness.trial import Measurement, Plan, TimedMeasurement
from bench.peers.cases import COLUMNAR, KEYBY
from tests.unit.bench.contests import SELECTION, TUPLE, Log, contest, entrant


def test_runs_are_interleaved_and_summed_up() -> None:
    log = Log()
    rows = contest(entrant("a"), Absence("b", "no keys"), entrant("c"), log=log)
    order = [run.split(", ")[1] for run in log.begun]
    assert order == ["a record", "c record"] * 3
    assert log.ended == 6
    first, absent, third = rows
    assert (first.system, absent.system, third.system) == ("a", "b", "c")
    assert first.runs == [1000.0] * 3
    assert first.verified
    assert first.parameters["credit"] == "on"
    assert first.parameters["edge"] == "remote"
    assert (absent.runs, absent.verified) == ([], False)
    assert absent.parameters == {"not_run": "no keys"}


def test_latencies_are_medians_of_the_runs() -> None:
    values = iter((30.0, 10.0, 20.0))

    def trips(case: Case, plan: Plan, pinning: Pinning) -> TimedMeasurement:
        return TimedMeasurement(1000, 1.0, 0.5, 0.5, True, {}, {"p50": next(values)})

    (row,) = contest(entrant("a", trips))
    assert row.latency_us == {"p50": 20.0}


def test_what_fails_is_not_tried_again_and_does_not_stop_the_others() -> None:
    tried = []

    def fail(case: Case, plan: Plan, pinning: Pinning) -> Measurement:
        tried.append(case)
        raise BenchError("the consumer failed")

    failed, fine = contest(entrant("a", fail), entrant("b"))
    assert failed.parameters == {"failed": "the consumer failed"}
    assert len(fine.runs) == 3
    assert tried == [TUPLE]
    with pytest.raises(BenchError, match="runs failed, see above: tuple, a record"):
        _require_verified([failed, fine])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            PackageNotFoundError("pyzmq"),
            "pyzmq is not installed: python -m pip install 'flinknet[bench]'",
        ),
        (UnavailableError("there is no javac on PATH"), "there is no javac on PATH"),
    ],
    ids=["library", "jdk"],
)
def test_what_is_not_installed_is_said_and_is_no_failure(error: Exception, reason: str) -> None:
    def missing() -> str:
        raise error

    rows = contest(entrant("a", version=missing), entrant("b"))
    assert rows[0].parameters == {"not_run": reason}
    assert len(rows[1].runs) == 3
    _require_verified(rows)


def test_wrong_counts_are_a_failure() -> None:
    def wrong(case: Case, plan: Plan, pinning: Pinning) -> Measurement:
        return Measurement(1, 1.0, 0.5, 0.5, False, {})

    with pytest.raises(BenchError, match="count or checksum"):
        _require_verified(contest(entrant("a", wrong)))


def test_absences_are_told_once_for_each_reason() -> None:
    rows = [
        row
        for case in (KEYBY, COLUMNAR)
        for row in run_case(
            "peers", case, [Absence("a", "no keys"), Absence("b", "no keys")], SELECTION, Log()
        )
    ]
    assert absences(rows) == ["keyby, columnar: a, b: not run: no keys"]

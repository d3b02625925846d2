"""An order that is carried out elsewhere: by this interpreter here, in another process. That there
are two does not matter for the order."""

from __future__ import annotations

import sys

import pytest

from bench.errors import BenchError
from bench.harness.case import Case
from bench.harness.pinning import choose_pinning
from bench.harness.trial import Plan, TimedMeasurement
from bench.peers import interpreter
from bench.peers.cases import CASES, PING_PONG
from bench.peers.interpreter import Interpreter

TUPLE, KEYBY = (next(case for case in CASES if case.name == name) for name in ("tuple", "keyby"))

OTHER = Interpreter(
    name="other",
    find=lambda: sys.executable,
    describe="import os; print(os.environ['SAID'])",
    how_to_get_it="ask",
    environment={"SAID": "so"},
    event_loop="uvloop",
    warm_up_s=0.1,
)


def test_its_name_stands_behind_that_of_a_form() -> None:
    assert OTHER.variant_name("bulk") == "bulk other"
    assert OTHER.runs("bulk other")
    assert not any(map(OTHER.runs, ("bulk", "other", "bulk another")))


def test_it_says_its_version_in_its_environment() -> None:
    assert OTHER.version() == "so"


def test_what_matters_for_a_fair_reading_is_told() -> None:
    assert OTHER.parameters(lambda case: {"of": case.name, "event_loop": "?"}, TUPLE) == {
        "of": "tuple",
        "event_loop": "uvloop",
        "warm_up_s": 0.1,
        "SAID": "so",
    }


@pytest.mark.parametrize(
    ("variant", "case"), [("bulk", TUPLE), ("job", KEYBY)], ids=["bulk", "job"]
)
def test_an_order_is_carried_out_elsewhere(variant: str, case: Case) -> None:
    measured = OTHER.measure(variant, case, Plan(1, 0.5, 0.0), choose_pinning())
    assert measured.verified
    assert measured.records > 0
    assert measured.seconds > 0
    assert measured.producer_cpu_seconds > 0


def test_round_trips_come_with_their_latencies() -> None:
    measured = OTHER.measure("record", PING_PONG, Plan(1, 0.1, 0.0), choose_pinning())
    assert isinstance(measured, TimedMeasurement)
    assert measured.verified
    assert 0 < measured.latency_us["p50"] <= measured.latency_us["p99.9"]


def test_a_run_that_fails_says_why() -> None:
    with pytest.raises(BenchError, match=r"tuple, flinknet nothing other failed:(.|\n)*KeyError"):
        OTHER.measure("nothing", TUPLE, Plan(1, 0.1, 0.0), choose_pinning())


def test_a_run_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "END_S", -0.15)
    with pytest.raises(BenchError, match="tuple, flinknet bulk other did not end within 0 s"):
        OTHER.measure("bulk", TUPLE, Plan(1, 0.1, 0.0), choose_pinning())

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import BenchError, UnavailableError
from bench.harness.case import Case
from bench.harness.pinning import choose_pinning
from bench.harness.trial import Plan, TimedMeasurement
from bench.peers import pypy
from bench.peers.cases import CASES, PING_PONG

TUPLE, KEYBY = (next(case for case in CASES if case.name == name) for name in ("tuple", "keyby"))


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What was found out about an interpreter does not outlive a test."""
    monkeypatch.setattr(pypy, "WARM_UP_S", 0.1)
    yield
    pypy._interpreter.cache_clear()
    pypy.version.cache_clear()


def test_without_an_interpreter_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pypy.VARIABLE, raising=False)
    monkeypatch.setattr(pypy, "ENVIRONMENT", Path("/nowhere"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnavailableError, match=r"there is no PyPy here: make \.venv-pypy PYPY="):
        pypy.version()


def test_an_interpreter_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pypy.VARIABLE, "/nowhere/pypy3")
    with pytest.raises(UnavailableError, match=r"/nowhere/pypy3 does not run .* make"):
        pypy.version()


def test_another_interpreter_is_not_taken_for_pypy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pypy.VARIABLE, sys.executable)
    with pytest.raises(UnavailableError, match="cannot run flinknet .*pypy_version_info"):
        pypy.version()


@pytest.mark.parametrize(
    ("variant", "case"), [("bulk", TUPLE), ("job", KEYBY)], ids=["bulk", "job"]
)
def test_an_order_is_carried_out_elsewhere(
    variant: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By this interpreter here: that there are two does not matter for the order."""
    monkeypatch.setenv(pypy.VARIABLE, sys.executable)
    measured = pypy.measure(variant, case, Plan(1, 0.5, 0.0), choose_pinning())
    assert measured.verified
    assert measured.records > 0
    assert measured.seconds > 0
    assert measured.producer_cpu_seconds > 0


def test_round_trips_come_with_their_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pypy.VARIABLE, sys.executable)
    measured = pypy.measure("record", PING_PONG, Plan(1, 0.1, 0.0), choose_pinning())
    assert isinstance(measured, TimedMeasurement)
    assert measured.verified
    assert 0 < measured.latency_us["p50"] <= measured.latency_us["p99.9"]


def test_a_run_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pypy.VARIABLE, sys.executable)
    with pytest.raises(BenchError, match=r"tuple, flinknet nothing pypy failed:(.|\n)*KeyError"):
        pypy.measure("nothing", TUPLE, Plan(1, 0.1, 0.0), choose_pinning())


def test_a_run_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pypy.VARIABLE, sys.executable)
    monkeypatch.setattr(pypy, "END_S", -0.15)
    with pytest.raises(BenchError, match="tuple, flinknet bulk pypy did not end within 0 s"):
        pypy.measure("bulk", TUPLE, Plan(1, 0.1, 0.0), choose_pinning())

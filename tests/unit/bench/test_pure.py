from __future__ import annotations

import pytest

from bench.errors import BenchError, UnavailableError
from bench.harness.case import Case
from bench.harness.pinning import choose_pinning
from bench.harness.trial import Plan
from bench.peers import pure
from bench.peers.cases import CASES

TUPLE, KEYBY = (next(case for case in CASES if case.name == name) for name in ("tuple", "keyby"))


def test_its_name_stands_behind_that_of_a_form() -> None:
    assert pure.variant_name("bulk") == "bulk pure"
    assert pure.is_variant_name("bulk pure")
    assert not any(map(pure.is_variant_name, ("bulk", "pure", "bulk impure")))


def test_it_runs_plain_python_whatever_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pure, "COMPILED", True)
    monkeypatch.setenv("FLINKNET_PURE", "0")
    assert " pure, Python 3." in pure.version()


def test_where_nothing_is_compiled_there_is_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pure, "COMPILED", False)
    with pytest.raises(UnavailableError, match="nothing is compiled, so that the other rows are"):
        pure.version()


def test_a_version_that_cannot_be_told_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pure, "COMPILED", True)
    monkeypatch.setattr(pure, "DESCRIBE", "import nothing_of_that_name")
    with pytest.raises(UnavailableError, match="cannot run flinknet:(.|\n)*nothing_of_that_name"):
        pure.version()


def test_what_matters_for_a_fair_reading_is_told() -> None:
    told = pure.parameters(lambda case: {"of": case.name}, TUPLE)
    assert told == {"of": "tuple", "FLINKNET_PURE": "1"}


@pytest.mark.parametrize(
    ("variant", "case"), [("bulk", TUPLE), ("job", KEYBY)], ids=["bulk", "job"]
)
def test_an_order_is_carried_out_in_another_process(variant: str, case: Case) -> None:
    measured = pure.measure(variant, case, Plan(1, 0.5, 0.0), choose_pinning())
    assert measured.verified
    assert measured.records > 0
    assert measured.seconds > 0
    assert measured.producer_cpu_seconds > 0


def test_a_run_that_fails_says_why() -> None:
    with pytest.raises(BenchError, match=r"tuple, flinknet nothing pure failed:(.|\n)*KeyError"):
        pure.measure("nothing", TUPLE, Plan(1, 0.1, 0.0), choose_pinning())


def test_a_run_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pure, "END_S", -0.05)
    with pytest.raises(BenchError, match="tuple, flinknet bulk pure did not end within 0 s"):
        pure.measure("bulk", TUPLE, Plan(1, 0.1, 0.0), choose_pinning())

"""One run of one system, in two real processes: its counts, and noticed faults."""

from __future__ import annotations

import pytest

from bench.errors import BenchError
from bench.exchange.cases import CASES
from bench.exchange.system import SYSTEM as FLINKNET
from bench.harness.case import Case
from bench.harness.pinning import choose_pinning
from bench.harness.system import Contestant, System
from bench.harness.trial import Measurement, Plan, measure
from bench.peers import stream
from tests.unit.bench.faulty_systems import CORRUPTING, DYING, FAILING, LOSING

SHORT = Plan(runs=1, seconds=0.02, warm_up_s=0.0)
TUPLE = CASES[0]


def run(system: System, variant: str = "record", case: Case = TUPLE) -> Measurement:
    return measure(Contestant(system, variant), case, SHORT, choose_pinning())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_arrives_whole(case: Case) -> None:
    measured = run(FLINKNET, "record", case)
    assert measured.verified
    assert measured.records % len(case.make_block()) == 0
    assert measured.records_per_s == measured.records / measured.seconds


@pytest.mark.parametrize(
    "contestant",
    [Contestant(FLINKNET, "bulk"), Contestant(stream.SYSTEM, "record")],
    ids=str,
)
def test_every_contestant_delivers(contestant: Contestant) -> None:
    assert run(contestant.system, contestant.variant).verified


@pytest.mark.parametrize("system", [LOSING, CORRUPTING], ids=lambda system: system.name)
def test_a_system_that_does_not_deliver_is_not_verified(system: System) -> None:
    assert not run(system).verified


def test_a_failing_side_says_why_even_if_the_other_side_speaks_first() -> None:
    with pytest.raises(BenchError, match="tuple, failing record: the producer failed") as caught:
        run(FAILING)
    assert "RuntimeError: out of paper" in str(caught.value)


def test_a_process_that_ends_is_noticed() -> None:
    with pytest.raises(BenchError, match="dying record: the consumer failed") as caught:
        run(DYING)
    assert "ended with exit code 3" in str(caught.value)

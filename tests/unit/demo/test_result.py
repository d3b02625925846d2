"""A demo's parameters, their effect, and the text of its result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.compiled_modules import IMPLEMENTATION
from flinknet.demo.result import DemoParameters, machine_facts
from flinknet.demo.verification import Difference, Verification
from flinknet.errors import ConfigurationError
from tests.unit.demo.results import result


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"workers": 1}, "workers is 1: choose 2 to"),
        ({"slots": 0}, "slots is 0: choose 1 to"),
        ({"sources": 5}, "5 sources need 5 slots, but 2 workers with 2 slots each have 4"),
        ({"sources": 0}, "sources is 0: choose 1 to"),
        ({"load": 0.0}, "load is 0.0: choose a share"),
        ({"load": 1.5}, "load is 1.5: choose a share"),
        ({"load": float("nan")}, "load is nan: choose a share"),
        ({"scale": 0}, "scale is 0: choose 1 to"),
    ],
)
def test_parameters_that_cannot_work_are_refused(
    tmp_path: Path, parameters: dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        DemoParameters(tmp_path, **parameters)  # type: ignore[arg-type]


def test_there_is_one_source_for_each_slot_unless_it_is_said(tmp_path: Path) -> None:
    parameters = DemoParameters(tmp_path, workers=3, slots=4)
    assert (parameters.parallelism, parameters.workload.sources) == (12, 12)
    assert DemoParameters(tmp_path, workers=3, slots=4, sources=5).workload.sources == 5


def test_a_run_keeps_up_with_its_schedule_or_has_none(tmp_path: Path) -> None:
    made = result(tmp_path)
    assert made.saturation.kept_up
    assert made.open_loop.kept_up
    rate = made.open_loop.figures.records_per_s
    assert not replace(made.open_loop, offered_records_per_s=1.1 * rate).kept_up


@pytest.mark.parametrize("name", ["saturation", "columns", "open_loop"])
def test_a_result_is_verified_if_all_runs_are(tmp_path: Path, name: str) -> None:
    made = result(tmp_path)
    assert made.verified
    different = Verification(224, 1_000, (Difference("EWR", "ANC", "distance", 1, 2),))
    wrong = replace(getattr(made, name), verification=different)
    assert not replace(made, **{name: wrong}).verified


def test_the_machine_is_described() -> None:
    facts = machine_facts()
    assert facts["cores"] >= 1
    assert facts["memory_bytes"] > 0
    assert facts["implementation"] == IMPLEMENTATION
    assert all(facts[name] for name in ("cpu", "system", "python", "flinknet", "pyspark"))

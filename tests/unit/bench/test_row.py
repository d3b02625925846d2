"""The content of the JSON, and how runs become a row."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.exchange.system import SYSTEM as FLINKNET
from bench.harness.machine import describe, machine_facts
from bench.harness.pinning import Pinning
from bench.harness.row import Row, make_row, ratio, read_json, write_json
from bench.harness.system import Contestant, System
from bench.harness.table import format_rate, format_time, print_rows
from bench.harness.trial import Measurement
from bench.peers import stream
from flinknet.compiled_modules import IMPLEMENTATION

FIELDS = {
    "family": str,
    "case": str,
    "system": str,
    "variant": str,
    "version": str,
    "records_per_s": float,
    "mb_per_s": float,
    "cpu_s_per_million_records": float,
    "latency_us": type(None),
    "runs": list,
    "verified": bool,
    "parameters": dict,
}


def measured(per_second: float, verified: bool = True, cpu_s: float = 1.0) -> Measurement:
    return Measurement(round(per_second * 2), 2.0, cpu_s / 4, cpu_s * 3 / 4, verified, {"seen": 7})


def row(system: System, variant: str, *measurements: Measurement, **changes: Any) -> Row:
    return make_row("exchange", "tuple", Contestant(system, variant), measurements, 18.0, changes)


def test_a_row_holds_medians_and_all_runs() -> None:
    made = row(
        FLINKNET, "record", measured(3e6, cpu_s=6.0), measured(1e6, cpu_s=4.0), measured(2e6)
    )
    assert made.runs == [3e6, 1e6, 2e6]
    assert made.records_per_s == 2e6
    assert made.mb_per_s == 36.0
    assert made.cpu_s_per_million_records == 1.0  # of 1.0, 2.0 and 0.25
    assert made.verified


def test_what_the_sides_have_observed_is_among_the_parameters() -> None:
    assert row(FLINKNET, "bulk", measured(1e6), seconds=1.0).parameters == {
        "seconds": 1.0,
        "seen": 7,
    }


def test_one_unverified_run_makes_the_row_unverified() -> None:
    assert not row(FLINKNET, "record", measured(1.0), measured(1.0, verified=False)).verified


def test_a_ratio_is_of_medians() -> None:
    own = row(FLINKNET, "record", measured(8e6), measured(100.0), measured(9e6))
    other = row(stream.SYSTEM, "record", measured(2e6), measured(7e6), measured(1e6))
    assert ratio(own, other) == 4.0
    assert ratio(other, own) == 0.25


def test_the_json_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    machine = machine_facts(Pinning(0, 1))
    write_json(machine, [row(FLINKNET, "bulk", measured(1e6), seconds=1.0)], path)
    document = json.loads(path.read_text())
    assert set(document) == {"machine", "rows"}
    facts = {"cpu", "cores", "kernel", "python", "libraries", "flinknet", "load_average"}
    assert facts <= set(document["machine"])
    assert {name: type(value) for name, value in document["rows"][0].items()} == FIELDS


def test_it_says_whether_flinknet_was_compiled() -> None:
    """Rows that were stored before this was recorded are shown as before."""
    facts = machine_facts(Pinning(0, 1))
    assert f", flinknet {IMPLEMENTATION}; load" in describe(facts)
    del facts["flinknet"]
    assert IMPLEMENTATION not in describe(facts)
    assert row(FLINKNET, "bulk", measured(1e6)).version.endswith(f" {IMPLEMENTATION}")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    machine, rows = (
        {"cpu": "one"},
        [row(FLINKNET, "bulk", measured(1e6)), row(FLINKNET, "record", measured(2e6))],
    )
    write_json(machine, rows, tmp_path / "rows.json")
    assert read_json(tmp_path / "rows.json") == (machine, rows)


def test_the_table_shows_ratios_beside_the_peer_and_what_did_not_verify() -> None:
    printed = StringIO()
    rows = [
        row(FLINKNET, "record", measured(3e6)),
        row(FLINKNET, "bulk", measured(5e6, verified=False)),
        row(stream.SYSTEM, "record", measured(250e3)),
    ]
    print_rows(rows, Console(file=printed, width=110))
    lines = {tuple(line.split()[:2]): line.split() for line in printed.getvalue().splitlines()}
    assert lines["tuple", "flinknet"][-1] == "yes"
    assert lines["flinknet", "bulk"][-1] == "NO"
    assert lines["stream", "record"][-3:] == ["12.00x", "20.00x", "yes"]


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (7.126, "7.13"),
        (999.4, "999"),
        (999.6, "1.00 k"),
        (45_678.0, "45.7 k"),
        (999_600.0, "1.00 M"),
        (12_345_678.0, "12.3 M"),
    ],
)
def test_rates_have_three_digits(per_second: float, text: str) -> None:
    assert format_rate(per_second) == text


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(7.126, "7.13 µs"), (999.6, "1.00 ms"), (45_678.0, "45.7 ms"), (12_345_678.0, "12.3 s")],
)
def test_times_have_three_digits(microseconds: float, text: str) -> None:
    assert format_time(microseconds) == text

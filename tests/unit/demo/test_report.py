"""Table, JSON and figure of a result."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from flinknet.compiled_modules import IMPLEMENTATION
from flinknet.demo.report import format_latency, print_report, write_json
from flinknet.demo.result import DemoResult
from flinknet.demo.verification import Difference, Verification
from tests.unit.demo.results import result


def printed(demo: DemoResult) -> str:
    text = io.StringIO()
    print_report(demo, Console(file=text, width=120))
    return text.getvalue()


def test_the_table_has_the_figures_of_all_runs(tmp_path: Path) -> None:
    text = printed(result(tmp_path))
    for expected in (
        f"flinknet {IMPLEMENTATION}",
        "1,234,567",
        "9,876,543",
        "1.20 ms",
        "5.60 ms",
        "9.80 ms",
        "23.5 ms",
        "6.2%",
        "local",
        "TCP",
    ):
        assert expected in text
    assert text.count("verified") == 3
    assert "DIFFERENT" not in text


def test_a_run_that_falls_behind_its_schedule_is_not_passed_off_as_latency(tmp_path: Path) -> None:
    demo = result(tmp_path)
    assert demo.open_loop.kept_up
    assert "fell behind" not in printed(demo)
    late = replace(demo.open_loop, offered_records_per_s=demo.open_loop.figures.records_per_s * 1.1)
    demo = replace(demo, open_loop=late)
    assert not demo.open_loop.kept_up
    assert "fell behind" in printed(demo)
    assert demo.to_dict()["runs"][2]["kept_up"] is False


def test_a_difference_is_printed_with_both_values(tmp_path: Path) -> None:
    demo = result(tmp_path)
    differences = (
        Difference("EWR", "ANC", "distance", 30_330, 30_331),
        Difference("JFK", "BHM", "records", 9, None),
    )
    wrong = replace(demo.open_loop, verification=Verification(224, 1_000, differences))
    demo = replace(demo, open_loop=wrong)
    assert not demo.verified
    text = printed(demo)
    assert "DIFFERENT open-loop: 2 of 224" in text
    rows = [line.replace("│", " ").split() for line in text.splitlines()]
    assert ["EWR", "ANC", "distance", "30,330", "30,331"] in rows
    assert ["JFK", "BHM", "records", "9", "missing"] in rows


def test_many_differences_are_cut_and_counted(tmp_path: Path) -> None:
    demo = result(tmp_path)
    differences = tuple(Difference("EWR", f"D{i:02}", "records", i, 0) for i in range(60))
    wrong = replace(demo.saturation, verification=Verification(224, 1_000, differences))
    text = printed(replace(demo, saturation=wrong))
    assert "60 of 224" in text
    assert "D49" in text
    assert "D50" not in text
    assert "... and 10 more" in text


def test_with_many_channels_the_table_is_of_keyed_subtasks(tmp_path: Path) -> None:
    text = printed(result(tmp_path, keyed=8, sources=8))
    assert "7 on worker-1" in text
    assert "from source" not in text


def test_the_json_has_everything(tmp_path: Path) -> None:
    demo = result(tmp_path)
    write_json(demo, tmp_path / "result.json")
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored["verified"] is True
    assert stored["machine"]["cores"] >= 1
    assert stored["machine"]["pyspark"]
    assert stored["parameters"]["records"] == 336_776
    assert [each["name"] for each in stored["runs"]] == ["saturation", "columns", "open-loop"]
    saturation, columns, open_loop = stored["runs"]
    assert columns["records_per_s"] == 9_876_543.0
    assert saturation["records_per_s"] == 1_234_567.0
    assert saturation["offered_records_per_s"] is None
    assert open_loop["offered_records_per_s"] == 617_283.5
    assert open_loop["latency_us"]["p99_us"] == 5_600.0
    assert len(open_loop["channels"]) == 16
    assert open_loop["verification"] == {
        "passed": True,
        "pairs": 224,
        "records": 1_000,
        "differences": [],
    }


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0.4, "0.40 µs"),
        (12.34, "12.3 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (9_996.0, "10.0 ms"),
        (123_456.0, "123 ms"),
        (999_600.0, "1.00 s"),
        (12_345_678.0, "12.3 s"),
    ],
)
def test_latencies_have_three_digits_and_a_fitting_unit(microseconds: float, text: str) -> None:
    assert format_latency(microseconds) == text

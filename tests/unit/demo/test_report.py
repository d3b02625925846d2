"""Table, JSON and figure of a result."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from rich.console import Console

from flinknet.demo.analysis import ChannelFigures, Latency, RunFigures, SubtaskFigures
from flinknet.demo.figure import DOTS_PER_INCH, HEIGHT_INCHES, WIDTH_INCHES, draw
from flinknet.demo.report import format_latency, print_report, write_json
from flinknet.demo.result import DemoParameters, DemoResult, Run, machine_facts
from flinknet.demo.verification import Difference, Verification
from flinknet.errors import ConfigurationError

PASSED = Verification(224, 1_000, ())


def run(name: str, *, records_per_s: float, keyed: int = 4, sources: int = 4) -> Run:
    """A run of which all parts agree with each other."""
    latency = Latency(1_200.0, 5_600.0, 9_800.0, 23_456.0)
    records, seconds = 1_000 * keyed * sources, 1_000 * keyed * sources / records_per_s
    interval = seconds / 10
    return Run(
        name,
        records_per_s if name == "open-loop" else None,
        RunFigures(
            records,
            seconds,
            records_per_s,
            records_per_s * 30 / 1e6,
            latency,
            tuple(
                SubtaskFigures(k, f"worker-{k % 2}", 1_000 * sources, 1 / keyed, latency)
                for k in range(keyed)
            ),
            tuple(
                ChannelFigures(s, k, s % 2 == k % 2, 1_000, 1 / keyed / sources, latency)
                for k in range(keyed)
                for s in range(sources)
            ),
            tuple(
                tuple((i * interval, interval, 100 * sources) for i in range(10))
                for _ in range(keyed)
            ),
            ((900.0, records // 4), (1_200.0, records // 2), (23_456.0, records // 4)),
        ),
        PASSED,
    )


def result(output: Path, *, keyed: int = 4, sources: int = 4) -> DemoResult:
    return DemoResult(
        DemoParameters(output, scale=1, sources=sources, workers=2, slots=keyed // 2),
        machine_facts(),
        {"Saturation run": 1.5},
        run("saturation", records_per_s=1_234_567.0, keyed=keyed, sources=sources),
        run("open-loop", records_per_s=617_283.5, keyed=keyed, sources=sources),
    )


def printed(demo: DemoResult) -> str:
    text = io.StringIO()
    print_report(demo, Console(file=text, width=120))
    return text.getvalue()


def test_the_table_has_the_figures_of_both_runs(tmp_path: Path) -> None:
    text = printed(result(tmp_path))
    for expected in (
        "1,234,567",
        "1.20 ms",
        "5.60 ms",
        "9.80 ms",
        "23.5 ms",
        "6.2%",
        "local",
        "TCP",
    ):
        assert expected in text
    assert text.count("verified") == 2
    assert "DIFFERENT" not in text


def test_a_run_that_falls_behind_its_schedule_is_not_passed_off_as_latency(tmp_path: Path) -> None:
    demo = result(tmp_path)
    assert demo.open_loop.kept_up
    assert "fell behind" not in printed(demo)
    late = replace(demo.open_loop, offered_records_per_s=demo.open_loop.figures.records_per_s * 1.1)
    demo = replace(demo, open_loop=late)
    assert not demo.open_loop.kept_up
    assert "fell behind" in printed(demo)
    assert demo.to_dict()["runs"][1]["kept_up"] is False


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
    assert [each["name"] for each in stored["runs"]] == ["saturation", "open-loop"]
    saturation, open_loop = stored["runs"]
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


@pytest.mark.parametrize(("keyed", "sources"), [(4, 4), (16, 3)])
def test_the_figure_is_a_picture_of_the_declared_size(
    tmp_path: Path, keyed: int, sources: int
) -> None:
    draw(result(tmp_path, keyed=keyed, sources=sources), tmp_path / "result.png")
    picture = matplotlib.image.imread(tmp_path / "result.png")
    assert picture.shape[:2] == (HEIGHT_INCHES * DOTS_PER_INCH, WIDTH_INCHES * DOTS_PER_INCH)
    colours = (picture * 255).astype(np.uint8).view(np.uint32)  # four bytes each
    assert len(np.unique(colours)) > 100


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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"workers": 1}, "workers is 1: choose 2 to"),
        ({"slots": 0}, "slots is 0: choose 1 to"),
        ({"sources": 5}, "5 sources need 5 slots, and 2 workers with 2 slots have 4"),
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

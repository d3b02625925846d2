"""The family ``isolation`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from rich.console import Console

from bench.harness.case import record_bytes
from bench.harness.family import Progress, Selection, plan_parameters
from bench.harness.figure import (
    PEER_COLOURS,
    SUBJECT_COLOURS,
    TEXT_GROUND,
    draw_bar_panel,
    draw_spread,
    label_lines,
    open_panels,
    place_lines,
)
from bench.harness.flinknet_system import network_parameters, version
from bench.harness.interleaving import interleave
from bench.harness.row import Row, median_row, ratio
from bench.harness.system import SUBJECT
from bench.harness.table import RATE, Column, print_table
from bench.isolation.producer import BARRIER_INTERVAL_S
from bench.isolation.setting import RECORDS, OneMore, Setting
from bench.isolation.trial import Outcome, measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["IsolationFamily", "make_isolation_row", "to_run_without"]

CHANNELS = {"channels-8": 8, "channels-32": 32}
FLOW_CONTROLS: dict[Literal["credit", "off"], str] = {"credit": "credit on", "off": "credit off"}
COLOURS = {"credit": SUBJECT_COLOURS[0], "off": PEER_COLOURS[1]}

KEY = (
    "records/s: of the other channels together, without the one more; median of the interleaved "
    "runs, on the consumer's clock. / without: over the median without the one more. p50, p99, "
    "max: milliseconds that a barrier takes from being sent to being taken by a consumer of the "
    "other channels, all runs together. arrived: of those sent in the measured time."
)


class IsolationFamily:
    """Channels on one connection, alone, or with one more that runs or stops."""

    name = "isolation"
    summary = "what a consumer that stops does to the others on its connection"
    systems: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.cases = {
            name: f"{channels - 1} channels over one connection, and one more"
            for name, channels in CHANNELS.items()
        }

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure every setting, run by run."""
        plan = selection.plan
        settings = {
            f"{case}, {variant(setting)}": (case, setting)
            for case in selection.cases
            for setting in _settings(CHANNELS[case] - 1)
        }
        progress.expect(plan.runs * len(settings))
        trials = {
            name: partial(measure, name, setting, plan, selection.pinning)
            for name, (_, setting) in settings.items()
        }
        outcomes = interleave(trials, plan.runs, progress)
        return [
            make_isolation_row(*settings[name], runs, plan_parameters(selection))
            for name, runs in outcomes.items()
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print the throughput of the others, and the travel times of barriers to them."""
        columns = (
            RATE,
            Column("/ without", partial(_format_ratio, rows), highlight=True),
            *(Column(f"{name}\nms", partial(_format_travel, name)) for name in PERCENTILES),
            Column("arrived", _format_arrived),
        )
        print_table(rows, columns, KEY, console, name="one more")

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the throughput relative to the run without the one more, and the travel times."""
        lines = [row for row in rows if row.parameters["one_more"] != "without"]
        with open_panels(path, 2, len(rows) + 2 * len(CHANNELS)) as panels:
            draw_bar_panel(
                panels[0],
                "Records/s of the others, in % of without",
                lines,
                [(to_run_without(rows, row) or 0.0) * 100 for row in lines],
                "{:.1f} %".format,
                colours=[COLOURS[row.parameters["flow_control"]] for row in lines],
                even=100.0,
            )
            _draw_travels(panels[1], rows)


PERCENTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def variant(setting: Setting) -> str:
    """Return the name of a setting."""
    return f"{FLOW_CONTROLS[setting.flow_control]}, {setting.one_more}"


def make_isolation_row(
    case: str, setting: Setting, outcomes: Sequence[Outcome], parameters: Mapping[str, Any]
) -> Row:
    """Return the row that summarizes the runs in one setting."""
    travels_us = sorted(time_us for outcome in outcomes for time_us in outcome.travels_us)
    return median_row(
        "isolation",
        case,
        (SUBJECT, variant(setting), version()),
        [outcome.records / outcome.seconds for outcome in outcomes],
        [outcome.cpu_seconds * 1e6 / max(outcome.records, 1) for outcome in outcomes],
        record_bytes(RECORDS.make_block()),
        latency_us=_percentiles(travels_us),
        verified=all(outcome.verified for outcome in outcomes),
        parameters={
            **parameters,
            "others": setting.others,
            "one_more": setting.one_more,
            "flow_control": setting.flow_control,
            "records": RECORDS.name,
            "barrier_interval_s": BARRIER_INTERVAL_S,
            "barriers_sent": sum(outcome.barriers_sent for outcome in outcomes),
            "barriers_arrived": len(travels_us),
            **network_parameters(setting.config),
        },
    )


def to_run_without(rows: Sequence[Row], row: Row) -> float | None:
    """Return the throughput of the others over the run without the one more.

    Returns None for that run itself, or if it was not measured.
    """
    for other in rows:
        same = all(
            other.parameters[name] == row.parameters[name] for name in ("others", "flow_control")
        )
        if same and other is not row and other.parameters["one_more"] == "without":
            return ratio(row, other)
    return None


def _settings(others: int) -> list[Setting]:
    return [
        Setting(others, one_more, flow_control)
        for flow_control in FLOW_CONTROLS
        for one_more in get_args(OneMore)
    ]


def _percentiles(ordered: Sequence[float]) -> dict[str, float] | None:
    if not ordered:
        return None
    last = len(ordered) - 1
    return {name: round(ordered[round(share * last)], 1) for name, share in PERCENTILES.items()}


def _format_ratio(rows: Sequence[Row], row: Row) -> str:
    value = to_run_without(rows, row)
    return "" if value is None else f"{value:.1%}"


def _format_travel(percentile: str, row: Row) -> str:
    if row.latency_us is None:
        return "never"
    travel_ms = row.latency_us[percentile] / 1000
    return f"{travel_ms:,.0f}" if travel_ms >= 100 else f"{travel_ms:.3g}"


def _format_arrived(row: Row) -> str:
    return "{barriers_arrived:,} of {barriers_sent:,}".format_map(row.parameters)


def _draw_travels(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw the median as a point, a line to the 99th percentile, and a tick at the longest."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    places = place_lines([row.case for row in rows])
    for place, row in zip(places, rows, strict=True):
        if row.latency_us is None:
            axes.text(
                0.02,
                place,
                "none arrived",
                va="center",
                transform=axes.get_yaxis_transform(),
                bbox=TEXT_GROUND,
            )
            continue
        percentiles = [row.latency_us[name] / 1000 for name in PERCENTILES]
        draw_spread(axes, place, percentiles, COLOURS[row.parameters["flow_control"]])
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter("{:g}".format))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title("Barriers in ms: p50 to p99, and the longest")
    label_lines(axes, places, [f"{row.case}  {row.variant}" for row in rows])

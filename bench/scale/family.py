"""The family ``scale`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from bench.harness.case import record_bytes
from bench.harness.family import Progress, Selection
from bench.harness.figure import draw_bar_panel, open_panels
from bench.harness.flinknet_system import network_parameters, version
from bench.harness.interleaving import interleave
from bench.harness.row import Row, median_row
from bench.harness.system import SUBJECT
from bench.harness.table import RATE_COLUMNS, Column, format_rate, print_table
from bench.scale.setting import Setting
from bench.scale.subtasks import CONFIG, SUBTASKS, SubtasksOutcome, make_record, measure_subtasks
from bench.scale.trial import Outcome, measure
from flinknet.config import BufferTimeout

__all__ = ["ScaleFamily", "make_channels_row", "make_subtasks_row"]

CHANNELS = {f"channels-{channels}": channels for channels in (1, 100, 1_000, 10_000)}
SUBTASKS_CASE = f"subtasks-{SUBTASKS}"

RECORDS_PER_S = 500_000
"""Records of a run for each second of the plan, the same number for every case."""

COSTED_CHANNELS_MIN = 1_000
"""Minimum for a cost per channel; with fewer channels, the difference of two runs hides it."""

BUFFER_TIMEOUTS_MS: dict[str, BufferTimeout] = {"adaptive": "adaptive", "timeout -1": -1}
"""The variants' buffer timeouts.

With the default, no record waits longer than 10 ms. With -1, only full buffers are sent, so a
channel with few records sends one buffer at its end.
"""

KEY = (
    "records/s: over all channels together; median of the interleaved runs, on the consumer's "
    "clock; low, high: the slowest and the fastest run. CPU s/M: user and system seconds of both "
    "processes (of the worker) per million records. B per idle: by how many bytes both processes "
    "together grow for each channel that is opened. µs per active: CPU microseconds of both "
    "processes for each channel beyond the first, over which the same number of records goes. "
    "records / buffer: how full the buffers were."
)


class ScaleFamily:
    """Logical channels over one connection, and subtasks in one worker."""

    name = "scale"
    summary = "what a logical channel costs, and that thousands of them work"
    systems: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.cases = {
            **{
                name: f"{channels:,} over one connection, all of them carrying records"
                for name, channels in CHANNELS.items()
            },
            SUBTASKS_CASE: f"{SUBTASKS // 2} sources to {SUBTASKS // 2} keyed sinks in one worker",
        }

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure every case, run by run."""
        runs = selection.plan.runs
        records = round(RECORDS_PER_S * selection.plan.seconds)
        settings = {
            f"{case}, {variant}": (case, Setting(CHANNELS[case], records, timeout_ms))
            for case in selection.cases
            if case in CHANNELS
            for variant, timeout_ms in BUFFER_TIMEOUTS_MS.items()
        }
        trials = {
            name: partial(measure, name, setting, selection.pinning)
            for name, (_, setting) in settings.items()
        }
        jobs = {
            case: partial(measure_subtasks, records)
            for case in selection.cases
            if case == SUBTASKS_CASE
        }
        progress.expect(runs * (len(trials) + len(jobs)))
        outcomes = interleave(trials, runs, progress)
        by_setting = {settings[name][1]: made for name, made in outcomes.items()}
        common = {"records": records, "cpus": list(selection.pinning)}
        rows = [
            make_channels_row(case, made, by_setting.get(replace(setting, channels=1)), common)
            for (case, setting), made in zip(settings.values(), outcomes.values(), strict=True)
        ]
        return rows + [
            make_subtasks_row(made) for made in interleave(jobs, runs, progress).values()
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, and the costs of a channel."""
        columns = (
            *RATE_COLUMNS,
            Column("CPU\ns/M", lambda row: f"{row.cpu_s_per_million_records:.3g}"),
            Column("B per\nidle", partial(_format, "bytes_per_idle_channel"), highlight=True),
            Column("µs per\nactive", partial(_format, "us_per_active_channel"), highlight=True),
            Column("records\n/ buffer", partial(_format, "records_per_buffer")),
        )
        print_table(rows, columns, KEY, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw throughput and CPU time."""
        rates = [row.records_per_s for row in rows]
        cpu_s = [row.cpu_s_per_million_records for row in rows]
        with open_panels(path, 2, len(rows) + 2) as (throughput, cost):
            draw_bar_panel(throughput, "Records per second", rows, rates, format_rate)
            draw_bar_panel(cost, "CPU seconds per million records", rows, cpu_s, "{:.3g}".format)


def make_channels_row(
    case: str,
    outcomes: Sequence[Outcome],
    one_channel: Sequence[Outcome] | None,
    parameters: Mapping[str, Any],
) -> Row:
    """Return the row that summarizes the runs over some number of channels.

    ``one_channel`` has the runs over one channel with the same records, if there were any.
    """
    setting = outcomes[0].setting
    timeouts = {timeout_ms: name for name, timeout_ms in BUFFER_TIMEOUTS_MS.items()}
    return median_row(
        "scale",
        case,
        (SUBJECT, timeouts[setting.buffer_timeout_ms], version()),
        [outcome.records_per_s for outcome in outcomes],
        [outcome.cpu_seconds * 1e6 / setting.records for outcome in outcomes],
        record_bytes(next(setting.blocks())),
        verified=all(outcome.verified for outcome in outcomes),
        parameters={
            **parameters,
            "channels": setting.channels,
            "bytes_per_idle_channel": _bytes_per_idle_channel(outcomes),
            "us_per_active_channel": _us_per_active_channel(outcomes, one_channel),
            "records_per_buffer": _records_per_buffer(outcomes),
            **outcomes[-1].machinery,
            "network_memory_bytes": setting.config.network_memory_bytes,
            **network_parameters(setting.config),
        },
    )


def _bytes_per_idle_channel(outcomes: Sequence[Outcome]) -> int | None:
    channels = outcomes[0].setting.channels
    if channels < COSTED_CHANNELS_MIN:
        return None
    return round(median(outcome.idle_bytes for outcome in outcomes) / channels)


def _us_per_active_channel(
    outcomes: Sequence[Outcome], one_channel: Sequence[Outcome] | None
) -> float | None:
    channels = outcomes[0].setting.channels
    if channels < COSTED_CHANNELS_MIN or one_channel is None:
        return None
    seconds, seconds_of_one = (
        median(outcome.cpu_seconds for outcome in runs) for runs in (outcomes, one_channel)
    )
    return round((seconds - seconds_of_one) * 1e6 / (channels - 1), 1)


def _records_per_buffer(outcomes: Sequence[Outcome]) -> float:
    return round(median(run.consumer.records / run.consumer.buffers for run in outcomes), 1)


def make_subtasks_row(outcomes: Sequence[SubtasksOutcome]) -> Row:
    """Return the row that summarizes the runs of the job."""
    records = outcomes[0].records
    return median_row(
        "scale",
        SUBTASKS_CASE,
        (SUBJECT, "one worker", version()),
        [outcome.records / outcome.seconds for outcome in outcomes],
        [outcome.cpu_seconds * 1e6 / outcome.records for outcome in outcomes],
        record_bytes(list(map(make_record, range(records)))),
        verified=all(outcome.verified for outcome in outcomes),
        parameters={
            "records": records,
            "subtasks": outcomes[-1].subtasks,
            "network_memory_bytes": CONFIG.network.network_memory_bytes,
            **network_parameters(CONFIG.network),
        },
    )


def _format(name: str, row: Row) -> str:
    value = row.parameters.get(name)
    return "" if value is None else f"{value:,}"

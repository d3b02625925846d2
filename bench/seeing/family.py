"""The family ``seeing`` as the command line uses it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from bench.errors import BenchError
from bench.harness import flinknet_system
from bench.harness.case import Case
from bench.harness.contest import Entrant
from bench.harness.flinknet_system import network_parameters
from bench.harness.overhead import ALONE, OverheadFamily
from bench.harness.pinning import Pinning
from bench.harness.row import Row
from bench.harness.system import SUBJECT
from bench.harness.table import Column
from bench.harness.trial import Measurement, Plan
from bench.peers import flinknet_job
from bench.peers.cases import KEYBY
from bench.seeing.observer import Look, observing, open_page, scrape
from bench.seeing.stall import CHANNELS, CONFIG, measure_stall
from bench.seeing.wide_worker import NETWORK, WIDE, measure_wide_worker
from flinknet.config import FlinknetConfig, MetricsConfig

__all__ = ["SeeingFamily"]

INTERVAL_S = 1.0
SCRAPED, WATCHED, MARKED = "scraped", "watched", "marked"
LOOKS: dict[str, Look] = {SCRAPED: scrape, WATCHED: open_page}
MARKERS = FlinknetConfig(metrics=MetricsConfig(latency_interval_ms=round(1000 * INTERVAL_S)))


class SeeingFamily(OverheadFamily):
    """The job of ``peers`` with two workers, observed each second, and not observed."""

    name = "seeing"
    summary = "what metrics, latency markers and an open page cost a keyed job, each every second"
    burdens = (SCRAPED, MARKED, WATCHED)
    title = "CPU per record while somebody looks each second, over while nobody does"
    key = (
        "records/s: median of the interleaved runs; low, high: the slowest and the fastest run. "
        "CPU s/M: user and system seconds of both workers (channels-10k, gate-10k: of one) per "
        "million records. CPU / alone: the median CPU s/M over the one while nobody looks. turn: "
        "the longest turn of an event loop, in CPU time of its thread, in the last run. asked: "
        "answers of processes in that run."
    )

    def __init__(self) -> None:
        super().__init__(
            (KEYBY, CHANNELS, WIDE),
            Column("turn\nms", _format_turn),
            Column("asked", lambda row: str(row.parameters.get("answers", ""))),
        )

    def variants(self, case: Case) -> list[str]:
        """Return the variants of a case; a turn is timed only alone and while scraped."""
        timed = case.name in (CHANNELS.name, WIDE.name)
        return [ALONE, SCRAPED] if timed else super().variants(case)

    def entrant(self, variant: str) -> Entrant:
        """Return the entrant of a variant."""
        measure = partial(_measure, variant)
        return Entrant(SUBJECT, variant, flinknet_system.version, _parameters, measure)


def _parameters(case: Case) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    of_the_job = flinknet_job.parameters(case)
    if case.name == WIDE.name:
        of_the_job |= {"workers": 1, "edge": "rebalance", **network_parameters(NETWORK)}
    elif case.name == CHANNELS.name:
        of_the_job |= network_parameters(CONFIG.network)
    return of_the_job


def _measure(variant: str, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError also if no process has answered."""
    look = LOOKS.get(variant)
    interval_s = min(INTERVAL_S, plan.seconds / 2)
    if case.name == WIDE.name:
        measured, observer = measure_wide_worker(
            case, plan, pinning, interval_s=None if look is None else interval_s
        )
    elif look is None:
        measured, observer = _run(variant, case, plan, pinning, _config_of(case)), None
    else:
        with observing(look, interval_s, _config_of(case)) as (observer, config):
            measured = _run(variant, case, plan, pinning, config)
    if observer is None:
        return measured
    if not observer.answers:
        raise BenchError("no process has answered")
    observed = {"answers": observer.answers, "answered_bytes": observer.bytes}
    return replace(measured, observations={**measured.observations, **observed})


def _config_of(case: Case) -> FlinknetConfig:
    return CONFIG if case.name == CHANNELS.name else FlinknetConfig()


def _run(
    variant: str, case: Case, plan: Plan, pinning: Pinning, config: FlinknetConfig
) -> Measurement:
    if case.name == CHANNELS.name:
        return measure_stall(config, case, plan, pinning)
    variation = flinknet_job.Variation(MARKERS if variant == MARKED else config)
    return flinknet_job.measure(case, plan, pinning, variation)


def _format_turn(row: Row) -> str:
    turn_ms = row.parameters.get("longest_turn_ms")
    return "" if turn_ms is None else f"{turn_ms:.1f}"

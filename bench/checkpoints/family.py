"""The family ``checkpoints`` as the command line uses it."""

from __future__ import annotations

from functools import partial

from bench.checkpoints.job import CASES, INTERVAL_MS, measure_job
from bench.harness import flinknet_system
from bench.harness.contest import Entrant
from bench.harness.overhead import ALONE, OverheadFamily
from bench.harness.row import Row
from bench.harness.system import SUBJECT
from bench.harness.table import Column
from bench.peers import flinknet_job

__all__ = ["CheckpointsFamily"]


class CheckpointsFamily(OverheadFamily):
    """The job of ``peers`` with two workers and with state, with checkpoints and without."""

    name = "checkpoints"
    summary = f"what checkpoints every {INTERVAL_MS / 1000:g} s cost a keyed job"
    burdens = ("checkpoints",)
    title = "CPU per record with checkpoints, over without"
    key = (
        "records/s: median of the interleaved runs; low, high: the slowest and the fastest run. "
        "CPU s/M: user and system seconds of both workers per million records, the writing of "
        "state included. stands: the longest time for which an event loop did not come to a "
        "timer, in the last run; holds: the most of one such time in which its process worked, "
        "and not another program on its CPU. taken: checkpoints in that run."
    )

    def __init__(self) -> None:
        super().__init__(
            CASES,
            Column("stands\nms", partial(_format_ms, "standstill_ms")),
            Column("holds\nms", partial(_format_ms, "held_ms")),
            Column("taken", lambda row: str(row.parameters.get("checkpoints") or "")),
        )

    def entrant(self, variant: str) -> Entrant:
        """Return the entrant of one of the two variants."""
        measure = partial(measure_job, variant != ALONE)
        version, parameters = flinknet_system.version, flinknet_job.parameters
        return Entrant(SUBJECT, variant, version, parameters, measure)


def _format_ms(name: str, row: Row) -> str:
    return f"{row.parameters[name]:.1f}"

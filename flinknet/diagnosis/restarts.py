"""A job that begins again and again, before there is anything to say of how it runs.

Its times and waits are those since it began last, so with failures every few seconds no reading is
ever long enough for a judgement: the restarts are the trouble. They follow each other if there were
two at least in the time that a diagnosis looks back over, and the next one is not overdue by now.
"""

from __future__ import annotations

from flinknet.diagnosis.finding import Culprit, Finding, FindingKind, TaskName, Throughput
from flinknet.diagnosis.history import REFRESHES
from flinknet.diagnosis.reading import Readings
from flinknet.diagnosis.topology import Topology

__all__ = ["restarting"]

TOLD_MAX = 3
"""Failures of which the evidence tells."""


def restarting(topology: Topology, readings: Readings) -> Finding | None:
    """Return what is found of a job that restarts every so many seconds; None of any other."""
    looked_back_s = REFRESHES * readings.refresh_s
    failures = [one for one in readings.failures if one.ago_s <= looked_back_s]
    if len(failures) < 2:
        return None
    every_s = (failures[-1].ago_s - failures[0].ago_s) / (len(failures) - 1)
    if failures[0].ago_s > 2 * every_s:
        return None
    last = failures[0]
    tasks = [task for task in topology.tasks() if topology.task_name(task) == last.subtask]
    vertices = [topology.vertices[vertex] for vertex, _ in tasks[:1]]
    culprit = Culprit(
        operator=vertices[0].name if vertices else "",
        vertex_id=vertices[0].rest_id if vertices else "",
        tasks=tuple(TaskName.of(topology, task) for task in tasks),
        worker_ids=(last.worker_id,) if last.worker_id else (),
    )
    reasons = dict.fromkeys(one.said for one in failures)
    return Finding(
        kind=FindingKind.RESTARTS,
        sentence=(
            f"the job restarts every {every_s:.1f} s, {len(failures)} times in the last "
            f"{failures[-1].ago_s:.0f} s: {last.said}"
        ),
        evidence=tuple(reasons)[:TOLD_MAX],
        culprit=culprit,
        severity=1.0,
        lost=(),
        lost_s=0.0,
        throughput=Throughput.of([]),
    )

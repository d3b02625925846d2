"""Flink as a peer: one run is a new cluster, a job of a fixed time, and the reports of its tasks.

The JVMs start, and the job warms up until the just-in-time compilers are done (see WarmUp.java).
After that, the tasks note their clocks, counts and CPU time at both ends of the measured window.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.trial import Measurement, Plan
from bench.peers.flink.cluster import HEAP, LARGE_BUFFERS, FlinkCluster, Placement, Settings
from bench.peers.flink.installation import FLINK_VERSION, Installation, install

__all__ = ["SUMMARY", "VARIANTS", "measure", "measurement_of", "parameters", "version"]

SUMMARY = "Flink 1.20 in Java: a job from one TaskManager to another"

VARIANTS: dict[str, Settings] = {
    "default": Settings(("-XX:+UseG1GC",)),
    "parallel-gc": Settings(("-XX:+UseParallelGC",)),
    "large-buffers": Settings(("-XX:+UseParallelGC",), LARGE_BUFFERS),
}
"""The garbage collector that Flink's start script chooses, and the faster one on one CPU.

The latter also runs with larger buffers, for payloads.
"""

WARM_UP_S_MIN = 6.0
"""Minimum warm-up; a compiler that rests earlier has not yet seen the hot code."""

WARM_UP_S_MAX = 60.0
"""Maximum warm-up; a compiler still busy after it is measured as it is.

The ``warm_up_s`` of the row shows it.
"""

LONG = 1 << 64
"""The sums of the Java job overflow at 64 bits."""

Reports = Mapping[str, Mapping[str, Any]]
"""The reports of the subtasks by name; see ExchangeJob.java."""


@cache
def _installed() -> Installation:
    return install()


def version() -> str:
    """Fetch and compile missing parts, and return the version. Raises UnavailableError."""
    return f"{FLINK_VERSION}, Java {_installed().java_version}"


def measure(variant: str, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError if the job fails, or does not use the network."""
    with tempfile.TemporaryDirectory(prefix="flink-") as name:
        directory = Path(name)
        job = [
            case.name,
            *(str(seconds) for seconds in (WARM_UP_S_MIN, WARM_UP_S_MAX, plan.seconds)),
            name,
        ]
        cluster = FlinkCluster(_installed(), directory, pinning, VARIANTS[variant], job)
        with cluster:
            placement = cluster.place()
            cluster.join(WARM_UP_S_MAX + plan.seconds)
        reports = {
            path.stem: json.loads(path.read_text())
            for kind in ("source", "sink")
            for path in sorted(directory.glob(f"{kind}-*.json"))
        }
    return measurement_of(reports, placement)


def measurement_of(reports: Reports, placement: Placement) -> Measurement:
    """Combine the tasks' reports. Raises BenchError if a process has no remote neighbour."""
    if len({manager for managers in placement.values() for manager in managers}) != 2:
        raise BenchError(f"Flink has put all tasks into one TaskManager: {placement}")
    sources = [report for name, report in reports.items() if name.startswith("source")]
    sinks = [report for name, report in reports.items() if name.startswith("sink")]
    first, second = sinks if len(sinks) == 2 else (*sources, *sinks)
    return Measurement(
        records=sum(sink["window_records"] for sink in sinks),
        seconds=sum(sink["window_s"] for sink in sinks) / len(sinks),
        producer_cpu_seconds=first["window_cpu_s"],
        consumer_cpu_seconds=second["window_cpu_s"],
        verified=all(
            sum(sent[field] for sent in sources) % LONG == sum(got[field] for got in sinks) % LONG
            for field in ("records", "weight", "fingerprint")
        ),
        observations={
            "task_managers": placement,
            "edge": "remote",
            "warm_up_s": max(report["warm_up_s"] for report in reports.values()),
        },
    )


def parameters(variant: str, case: Case) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    return {
        **VARIANTS[variant].network,
        "jvm": " ".join((*HEAP, *VARIANTS[variant].jvm)),
        "object_reuse": True,
        "chaining": False,
        "checkpoints": False,
    }

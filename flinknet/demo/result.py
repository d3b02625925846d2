"""The result of a demo as values, shared by the tables, the JSON file and the figure."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flinknet.compiled_modules import IMPLEMENTATION
from flinknet.demo.analysis import RunFigures
from flinknet.demo.kill import Kill
from flinknet.demo.verification import Verification
from flinknet.demo.workload import FLIGHTS, WorkloadParameters
from flinknet.errors import ConfigurationError
from flinknet.texts import counted

__all__ = [
    "COLUMNS",
    "KILLED",
    "OPEN_LOOP",
    "SATURATION",
    "DemoParameters",
    "DemoResult",
    "KilledRun",
    "Run",
    "machine_facts",
]

SATURATION = "saturation"
COLUMNS = "columns"
OPEN_LOOP = "open-loop"
KILLED = "killed"

KEPT_UP_SHARE_MIN = 0.97
"""Minimum share of the scheduled rate for a run to count as not overloaded.

The remaining share allows for the last records of the run.
"""

WORKERS_MAX = 64
"""Maximum number of worker processes of one demo, which runs on one host."""


@dataclass(frozen=True, slots=True)
class DemoParameters:
    """The user's choices; invalid ones are rejected here, before anything starts.

    ``sources`` defaults to one source subtask per slot. ``limit`` takes only the first flights of
    the year. ``kill`` adds a run in which a worker is killed.
    """

    output: Path
    scale: int = 9
    sources: int | None = None
    workers: int = 2
    slots: int = 2
    load: float = 0.5
    limit: int = FLIGHTS
    kill: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.workers <= WORKERS_MAX:
            raise ConfigurationError(
                f"workers is {self.workers}: choose 2 to {WORKERS_MAX}, so that records cross a "
                "connection"
            )
        if not 1 <= self.slots <= 1024:
            raise ConfigurationError(f"slots is {self.slots}: choose 1 to 1024 per worker")
        if self.sources is not None and self.sources > self.parallelism:
            raise ConfigurationError(
                f"{counted(self.sources, 'source')} need {counted(self.sources, 'slot')}, but "
                f"{counted(self.workers, 'worker')} with {counted(self.slots, 'slot')} each have "
                f"{self.parallelism}: raise --workers or --slots, or lower --sources"
            )
        if not 0.01 <= self.load <= 1.0:
            raise ConfigurationError(
                f"load is {self.load}: choose a share of the measured maximum, 0.01 to 1"
            )
        self.workload  # noqa: B018  # checks scale, sources and limit

    @property
    def parallelism(self) -> int:
        return self.workers * self.slots

    @property
    def workload(self) -> WorkloadParameters:
        sources = self.parallelism if self.sources is None else self.sources
        return WorkloadParameters(self.scale, sources, self.limit)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the job; ``offered_records_per_s`` is its scheduled rate, or None."""

    name: str
    offered_records_per_s: float | None
    figures: RunFigures
    verification: Verification

    @property
    def kept_up(self) -> bool:
        """Whether the run kept its scheduled rate; always true without a schedule."""
        offered = self.offered_records_per_s
        return offered is None or self.figures.records_per_s >= KEPT_UP_SHARE_MIN * offered


@dataclass(frozen=True, slots=True)
class KilledRun:
    """The run in which a worker was killed."""

    kill: Kill
    verification: Verification


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The runs, the duration of each phase, and the run with a killed worker, if requested."""

    parameters: DemoParameters
    machine: dict[str, Any]
    phases: dict[str, float]
    saturation: Run
    columns: Run
    open_loop: Run
    killed: KilledRun | None = None

    @property
    def runs(self) -> tuple[Run, Run, Run]:
        return self.saturation, self.columns, self.open_loop

    @property
    def verified(self) -> bool:
        killed = self.killed
        return all(run.verification.passed for run in self.runs) and (
            killed is None or killed.verification.passed
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        workload = self.parameters.workload
        return {
            "verified": self.verified,
            "machine": self.machine,
            "parameters": {
                **asdict(self.parameters),
                "output": str(self.parameters.output),
                "sources": workload.sources,
                "records": workload.records,
            },
            "phase_seconds": self.phases,
            "runs": [
                {
                    "name": run.name,
                    "offered_records_per_s": run.offered_records_per_s,
                    "kept_up": run.kept_up,
                    "verification": {"passed": run.verification.passed, **asdict(run.verification)},
                    **asdict(run.figures),
                }
                for run in self.runs
            ],
            "killed": None if self.killed is None else asdict(self.killed),
        }


def machine_facts() -> dict[str, Any]:
    """Return facts about the machine and the software that were measured."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "implementation": IMPLEMENTATION,
        **{
            name: _version(name) for name in ("flinknet", "uvloop", "msgpack", "pyarrow", "pyspark")
        },
    }


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())

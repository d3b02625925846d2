"""Where ``execute`` sends a job: to an embedded local cluster, or to whoever loaded the program.

A program that is run by itself starts a local cluster for each job. A runner (``flinknet run``)
loads the same program with its own executor installed, and gets its jobs instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol

from flinknet.config import FlinknetConfig
from flinknet.task.graph import JobGraph

__all__ = ["Executor", "JobResult", "embedded_config", "execute", "set_executor"]


class JobResult(Protocol):
    """What ``execute`` returns: a job that has finished. The cluster's ``JobResult`` is one."""

    @property
    def job_id(self) -> str:
        """The job's id."""

    @property
    def seconds(self) -> float:
        """From submission to the end."""

    @property
    def vertices(self) -> tuple[dict[str, Any], ...]:
        """One row of counters and metrics per subtask; plain JSON types."""

    @property
    def collected(self) -> dict[str, list[Any]]:
        """Records of the collect sinks, by sink name, subtask after subtask."""


Executor = Callable[[JobGraph], JobResult]

_installed: list[Executor] = []


def set_executor(executor: Executor | None) -> None:
    """Send the jobs of this process to ``executor``; None returns to embedded local clusters."""
    _installed[:] = [] if executor is None else [executor]


def execute(graph: JobGraph, config: FlinknetConfig | None = None) -> JobResult:
    """Run a job to its end and return its result; raises the JobError that it ended with.

    ``config`` is that of the embedded cluster; ``embedded_config`` by default.
    """
    if _installed:
        return _installed[0](graph)
    # By name, because the cluster is built on this package and not the other way round.
    run_job: Callable[[JobGraph, FlinknetConfig], JobResult]
    run_job = import_module("flinknet.cluster").run_job
    return run_job(graph, config or embedded_config(graph))


def embedded_config(graph: JobGraph) -> FlinknetConfig:
    """Return the default configuration, with more slots per worker if the job needs them."""
    config = FlinknetConfig()
    slots = -(-graph.slots_required() // config.cluster.workers)
    if slots <= config.cluster.slots_per_worker:
        return config
    return replace(config, cluster=replace(config.cluster, slots_per_worker=slots))

"""Where ``execute`` sends a job: to an embedded local cluster, or to whoever loaded the program.

A program that is run by itself starts a local cluster for each job. A runner (``flinknet run``)
loads the same program with its own executor installed, and gets its jobs instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from flinknet.config import FlinknetConfig
from flinknet.task.graph import JobGraph

if TYPE_CHECKING:
    from flinknet.cluster.control.job_result import JobResult

__all__ = ["Executor", "embedded_config", "execute", "set_executor"]


Executor: TypeAlias = "Callable[[JobGraph], JobResult]"

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
    # Now, because a worker that unpickles a function of a job needs no cluster for it.
    from flinknet.cluster.local.run import run_job

    return run_job(graph, config or embedded_config(graph))


def embedded_config(graph: JobGraph) -> FlinknetConfig:
    """Return the default configuration, with more slots per worker if the job needs them."""
    config = FlinknetConfig()
    slots = -(-graph.slots_required() // config.cluster.workers)
    if slots <= config.cluster.slots_per_worker:
        return config
    return replace(config, cluster=replace(config.cluster, slots_per_worker=slots))

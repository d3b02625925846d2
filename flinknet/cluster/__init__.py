"""Processes: coordinator, workers, and the launchers that start them for a program.

::

    launch/  (your program)    coordinator/                        worker/
    cluster.py, watcher.py     coordinator.py        shell, clock  worker.py          shell
    protocol.py, registry.py   rest.py, *_routes.py  HTTP          job_attempt.py
      local/launcher.py        worker_connection.py                settlement.py
      local/child_process.py   metric_store.py                     worker_metrics.py
    job_fit.py, run.py         no I/O: dispatcher.py               metrics_server.py
                                 job_record.py, attempt_record.py
                                 job_execution.py, placement.py
                                 pipelined_region.py
                                 worker_registry.py

What they say to each other, and what each needs for it, is in ``control/``, the client of a
coordinator too. A launcher starts the processes, and ``cluster.launcher`` names it. It knows
neither the watcher nor the client.

``run_job`` and ``LocalCluster`` run a job graph; ``JobResult`` is what comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinknet.cluster.control.job_result import JobProgress, JobResult, VertexProgress

if TYPE_CHECKING:
    from flinknet.cluster.launch.local.local_cluster import LocalCluster
    from flinknet.cluster.launch.run import run_job

__all__ = ["JobProgress", "JobResult", "LocalCluster", "VertexProgress", "run_job"]


def __getattr__(name: str) -> Any:
    """Import the launchers when a program asks for them: a coordinator or worker needs none."""
    if name == "LocalCluster":
        from flinknet.cluster.launch.local.local_cluster import LocalCluster

        return LocalCluster
    if name == "run_job":
        from flinknet.cluster.launch.run import run_job

        return run_job
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

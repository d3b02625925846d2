"""The processes of a cluster: coordinator, workers, and the launchers that start them.

::

    launch/  (your program)    coordinator/                        worker/
    cluster.py, watcher.py     serving.py            process       worker.py          shell
    protocol.py, registry.py   rest/                 HTTP          job_attempt.py
      local/launcher.py        coordinator.py        loop, clock   sink_commits.py
      local/child_process.py   no I/O: jobs/dispatcher.py          worker_metrics.py
    job_fit.py, run.py           jobs/job_starts.py                metrics_server.py
                                 jobs/order_executor.py
                                 jobs/job_record.py
                                 jobs/job_execution.py
                                 workers/worker_registry.py

``control/`` has the messages between these processes, the code that all of them share, and the
client of a coordinator. A launcher starts the processes; ``cluster.launcher`` names it. It knows
neither the watcher nor the client.

``run_job`` and ``LocalCluster`` run a job graph and return a ``JobResult``.
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

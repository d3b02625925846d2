"""Processes: coordinator, workers, and the local launcher that starts and watches them.

::

    local/  (your program)    coordinator/                     worker/
    local_cluster.py          coordinator.py  shell, clock     worker.py  shell
    child_process.py                                           job_attempt.py
    preflight.py, run.py      rest.py  public, client and      settlement.py
                              worker routes
                              worker_connection.py
                              dispatcher.py, job_execution.py, worker_registry.py  no I/O

What they say to each other, and what each needs for it, is in ``control/``.

``run_job`` and ``LocalCluster`` run a job graph; ``JobResult`` is what comes back.
"""

from __future__ import annotations

from flinknet.cluster.control.job_result import JobProgress, JobResult, VertexProgress
from flinknet.cluster.local.local_cluster import LocalCluster
from flinknet.cluster.local.run import run_job

__all__ = ["JobProgress", "JobResult", "LocalCluster", "VertexProgress", "run_job"]

"""Processes: coordinator, workers, and the local launcher that starts and watches them.

::

    local/  (your program)     coordinator/                        worker/
    local_cluster.py           coordinator.py        shell, clock  worker.py          shell
      launcher.py, watcher.py  rest.py, *_routes.py  HTTP          job_attempt.py
      child_process.py         worker_connection.py                settlement.py
    preflight.py, run.py       metric_store.py                     worker_metrics.py
                               no I/O: dispatcher.py               metrics_server.py
                                 job_record.py, attempt_record.py
                                 job_execution.py, placement.py
                                 pipelined_region.py
                                 worker_registry.py

What they say to each other, and what each needs for it, is in ``control/``, the client of a
coordinator too. Launcher, watcher and client do without each other, for those who start the
processes in another way.

``run_job`` and ``LocalCluster`` run a job graph; ``JobResult`` is what comes back.
"""

from __future__ import annotations

from flinknet.cluster.control.job_result import JobProgress, JobResult, VertexProgress
from flinknet.cluster.local.local_cluster import LocalCluster
from flinknet.cluster.local.run import run_job

__all__ = ["JobProgress", "JobResult", "LocalCluster", "VertexProgress", "run_job"]

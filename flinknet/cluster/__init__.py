"""Processes: coordinator, workers, and the local launcher that starts and watches them.

::

    launcher (your program)          coordinator process             worker processes
    local_cluster.py                 coordinator.py  shell, clock    worker.py       shell
    child_process.py  <-- parent.py  http_server.py, rest.py  HTTP   control_link.py
    client.py                        worker_connection.py            job_attempt.py
    commands.py, run.py              dispatcher.py   no I/O
                                     execution.py, worker_registry.py, failure.py

``run_job`` and ``LocalCluster`` run a job graph; ``JobResult`` is what comes back.
"""

from __future__ import annotations

from flinknet.cluster.job_result import JobProgress, JobResult, VertexProgress
from flinknet.cluster.local_cluster import LocalCluster
from flinknet.cluster.run import run_job

__all__ = ["JobProgress", "JobResult", "LocalCluster", "VertexProgress", "run_job"]

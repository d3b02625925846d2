"""Execution of jobs: in an embedded cluster, a running cluster, or the runner of the program.

A program that runs on its own starts a cluster for each job. Its configuration comes from
``FLINKNET_*`` and the file that FLINKNET_CONFIG names, as for ``flinknet run``.
``cluster.launcher`` names the launcher of its processes. If the program names a running cluster,
its jobs go there. A runner (``flinknet run``) installs its own executor before it loads the
program, and receives the program's jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from flinknet.config import FlinknetConfig
from flinknet.config.flink_options import FLINK_OPTIONS
from flinknet.config.loading import load_settings
from flinknet.datastream.job_client import JobClient
from flinknet.graph.graph import JobGraph

if TYPE_CHECKING:
    from flinknet.cluster.control.job_result import JobResult
    from flinknet.cluster.launch.job_control import JobControl

__all__ = [
    "Executor",
    "effective_config",
    "embedded_config",
    "execute",
    "execute_async",
    "finish_started",
    "set_executor",
]


Executor: TypeAlias = "Callable[[JobGraph, JobControl | None], JobResult]"

_installed: list[Executor] = []
_installed_config: list[FlinknetConfig] = []
_started: list[JobClient] = []
"""Jobs that the installed executor runs in threads."""


def set_executor(executor: Executor | None, config: FlinknetConfig | None = None) -> None:
    """Send the jobs of this process to ``executor``.

    ``config`` is the configuration of the executor's clusters. None as the executor returns to
    embedded clusters, and cancels the jobs that the executor runs in threads.
    """
    for client in _started:
        client.cancel()
    for client in _started:
        client.join()
    _started.clear()
    _installed[:] = [] if executor is None else [executor]
    _installed_config[:] = [] if config is None else [config]


def finish_started() -> None:
    """Wait for the jobs that the executor runs in threads.

    Raises the error of a failed job if the program never requested its result.
    """
    for client in _started:
        if client.is_unasked:
            client.get_job_execution_result().result()
        client.join()


def execute(
    graph: JobGraph, config: FlinknetConfig | None = None, cluster: str | None = None
) -> JobResult:
    """Run a job to its end and return its result; raises the JobError that it ended with.

    ``config`` configures the embedded cluster; the default is ``embedded_config``. ``cluster``
    names a running cluster to use instead. On a terminal, the job's progress and end are displayed.
    """
    if _installed:
        return _installed[0](graph, None)
    # Imported here because a worker that unpickles a job's function needs no cluster code.
    from flinknet.cluster.launch.job_display import run_job_on_terminal

    return run_job_on_terminal(*_run_of(graph, config, cluster))


def execute_async(
    graph: JobGraph, config: FlinknetConfig | None = None, cluster: str | None = None
) -> JobClient:
    """Start a job and return at once; works inside a running event loop, too."""
    from flinknet.cluster.launch.job_control import JobControl

    control = JobControl()
    if _installed:
        client = JobClient(partial(_installed[0], graph, control), control)
        _started.append(client)
        return client
    run, _ = _run_of(graph, config, cluster)
    return JobClient(partial(run, control=control), control)


def _run_of(
    graph: JobGraph, config: FlinknetConfig | None, cluster: str | None
) -> tuple[Callable[..., JobResult], FlinknetConfig]:
    """Return a function that runs the job on its cluster, and that cluster's configuration."""
    if cluster is None:
        from flinknet.cluster.launch.run import run_job

        config = config or embedded_config(graph)
        return partial(run_job, graph, config), config
    from flinknet.cluster.launch.named_clusters import named_cluster
    from flinknet.cluster.launch.remote import run_on_cluster

    place = named_cluster(cluster)
    if config is not None:
        place = replace(place, config=config)
    return partial(run_on_cluster, graph, place), place.config


def effective_config(config: FlinknetConfig | None) -> FlinknetConfig:
    """Return the configuration of the clusters for jobs; ``config`` is the program's own."""
    if _installed_config:
        return _installed_config[0]
    return config or load_settings(None, os.environ, {}).config


def embedded_config(graph: JobGraph) -> FlinknetConfig:
    """Return the configuration from the environment, with enough slots per worker for the job.

    The number of slots is raised only if neither the configuration nor the job sets it.
    """
    settings = load_settings(None, os.environ, {})
    config = settings.config
    slots = -(-graph.slots_required() // max(1, config.cluster.workers))
    option = "cluster.slots_per_worker"
    is_given = settings.origins[option].kind != "default" or any(
        FLINK_OPTIONS[key].name == option for key, _ in graph.cluster_options
    )
    if is_given or slots <= config.cluster.slots_per_worker:
        return config
    return replace(config, cluster=replace(config.cluster, slots_per_worker=slots))

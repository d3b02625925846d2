"""Where ``execute`` sends a job: to an embedded cluster, or to the runner that loaded the program.

A program that is run by itself starts a cluster for each job, configured as ``flinknet run``
configures it: by ``FLINKNET_*`` and the file that FLINKNET_CONFIG names; ``cluster.launcher`` names
what starts its processes. One that names a cluster which runs already sends its jobs there. A
runner (``flinknet run``) loads the same program with its own executor installed, and gets its jobs
instead.
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
"""What the installed executor has in threads."""


def set_executor(executor: Executor | None, config: FlinknetConfig | None = None) -> None:
    """Send the jobs of this process to ``executor``, whose clusters are configured by ``config``;
    None returns to embedded clusters, and cancels jobs that the executor has in threads."""
    for client in _started:
        client.cancel()
    for client in _started:
        client.join()
    _started.clear()
    _installed[:] = [] if executor is None else [executor]
    _installed_config[:] = [] if config is None else [config]


def finish_started() -> None:
    """Wait for the jobs that the executor has in threads; raises the error of one whose result
    nobody has asked for."""
    for client in _started:
        if client.is_unasked:
            client.get_job_execution_result().result()
        client.join()


def execute(
    graph: JobGraph, config: FlinknetConfig | None = None, cluster: str | None = None
) -> JobResult:
    """Run a job to its end and return its result; raises the JobError that it ended with.

    ``config`` is that of the embedded cluster; ``embedded_config`` by default. ``cluster`` names
    one that runs already instead. On a terminal the job's progress is shown, and how it ended.
    """
    if _installed:
        return _installed[0](graph, None)
    # Now, because a worker that unpickles a function of a job needs no cluster for it.
    from flinknet.cluster.launch.job_display import run_job_on_terminal

    return run_job_on_terminal(*_run_of(graph, config, cluster))


def execute_async(
    graph: JobGraph, config: FlinknetConfig | None = None, cluster: str | None = None
) -> JobClient:
    """Start a job and return at once; also in a running event loop."""
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
    """Return what runs the job where it is to run, and the configuration of that cluster."""
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
    """Return the configuration of the clusters that jobs get; ``config`` is the program's own."""
    if _installed_config:
        return _installed_config[0]
    return config or load_settings(None, os.environ, {}).config


def embedded_config(graph: JobGraph) -> FlinknetConfig:
    """Return the configuration of the environment, with more slots per worker if the job needs them
    and nobody has said how many there are."""
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

"""Checks that a job fits its cluster, before any process is started: slots, network memory.

Each refusal gives the required numbers and names the option to change. A job runs *degraded* if its
gates get less than they would reserve, but as much as they require: as many exclusive buffers as
necessary become floating ones (``required_buffers_per_gate_max``).
"""

from __future__ import annotations

import os
from dataclasses import replace

from flinknet.checkpoint.location import open_storage
from flinknet.cluster.launch.job_memory import JobMemory
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.config.local_path import is_process_local, local_path
from flinknet.errors import (
    ConfigurationError,
    InsufficientNetworkBuffersError,
    InsufficientSlotsError,
)
from flinknet.graph.buffer_needs import Verdict
from flinknet.graph.graph import JobGraph
from flinknet.texts import counted

__all__ = ["check_job", "explain_job", "fit_job"]


def explain_job(graph: JobGraph, config: FlinknetConfig) -> JobMemory:
    """Compute the memory that the job needs on an empty cluster. Raises InsufficientSlotsError."""
    _check_slots(graph, config.cluster)
    return JobMemory.of_graph(graph, config)


def fit_job(graph: JobGraph, config: FlinknetConfig) -> tuple[FlinknetConfig, str | None]:
    """Return the configuration of a cluster that the job fits, and a notice for its user.

    It is ``config`` itself, without a notice, unless the job must be degraded. Raises
    InsufficientSlotsError, InsufficientNetworkBuffersError below the minimum, or ConfigurationError
    if its checkpoints or its output cannot be written.
    """
    _check_checkpoint_directory(graph, config)
    _check_outputs(graph)
    memory = explain_job(graph, config)
    if memory.verdict in (Verdict.COMFORTABLE, Verdict.FITS):
        return config, None
    limit, settings = memory.degraded_gate_limit, memory.settings()
    if limit is None:
        raise InsufficientNetworkBuffersError(
            f'job "{graph.name}" cannot run, not even degraded: {memory.shortage("minimum")}: '
            f"raise it to {settings['required']} (at least to {settings['minimum']}), or lower "
            "network.segment_bytes or the job's parallelism"
        )
    network = replace(config.network, required_buffers_per_gate_max=limit)
    return replace(config, network=network), (
        f'job "{graph.name}" runs degraded: {memory.shortage("required")}, so an input gate '
        f"reserves at most {limit} (network.required_buffers_per_gate_max) and its channels share "
        f"what else is free; raise network.network_memory_bytes to {settings['required']} to "
        "avoid this"
    )


def check_job(graph: JobGraph, config: FlinknetConfig) -> None:
    """Raise the errors of ``fit_job``, and also if the job would have to be degraded.

    This is for a cluster that runs already with this configuration.
    """
    fitted, _ = fit_job(graph, config)
    if fitted is not config:
        memory = JobMemory.of_graph(graph, config)
        raise InsufficientNetworkBuffersError(
            f'job "{graph.name}" does not fit this cluster: {memory.shortage("required")}: start '
            f"a cluster with at least {memory.settings()['required']}, or with "
            "network.required_buffers_per_gate_max = "
            f"{fitted.network.required_buffers_per_gate_max}, which runs the job degraded"
        )


def _check_slots(graph: JobGraph, cluster: ClusterConfig) -> None:
    needed = graph.slots_required()
    offered = cluster.workers * cluster.slots_per_worker
    if not cluster.workers:
        raise InsufficientSlotsError(
            f'job "{graph.name}" needs {counted(needed, "slot")}, but cluster.workers is 0: that '
            "is only for `flinknet cluster start`, if workers of other hosts join the coordinator"
        )
    if needed > offered:
        workers = -(-needed // cluster.slots_per_worker)
        slots = -(-needed // cluster.workers)
        raise InsufficientSlotsError(
            f'job "{graph.name}" needs {counted(needed, "slot")}, but the cluster has {offered} '
            f"({counted(cluster.workers, 'worker')} with "
            f"{counted(cluster.slots_per_worker, 'slot')} each): use --workers {workers} "
            f"(cluster.workers) or --slots {slots} (cluster.slots_per_worker), or lower the job's "
            "parallelism"
        )


def _check_checkpoint_directory(graph: JobGraph, config: FlinknetConfig) -> None:
    """Raise ConfigurationError if checkpoints cannot be written.

    Without this check the job would start and run until more checkpoints than
    ``tolerable_failures`` have failed, and the reason would be reported only then.
    """
    if graph.checkpointing is None:
        return
    place = graph.checkpointing.directory or config.checkpointing.directory
    if not place:
        return
    open_storage(place, config.checkpointing)
    path = local_path(place)
    if path is None:
        return
    path = path.absolute()
    # os.path.exists is False below a directory that this user may not enter; Path.exists raises.
    there = next(one for one in (path, *path.parents) if os.path.exists(one))  # noqa: PTH110
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = "is not a directory" if not there.is_dir() else "is not writable for this user"
        raise ConfigurationError(
            f'job "{graph.name}" cannot keep checkpoints in {path}: {there} {why}; choose another '
            "directory (checkpointing.directory, or set_checkpoint_storage_dir in the job)"
        )


def _check_outputs(graph: JobGraph) -> None:
    for operator, sink in graph.two_phase_sinks():
        output = sink.exclusive_output()
        if output is not None and is_process_local(output):
            raise ConfigurationError(
                f'sink "{operator.name}" writes to {output}, which is in the memory of each '
                "process, so the output of a worker is lost when the worker ends: give a "
                "directory, or an object store"
            )

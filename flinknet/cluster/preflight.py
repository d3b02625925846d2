"""What is checked before any process is started: sizes, ports, slots.

Each refusal gives the numbers that are needed and names the option to change.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from operator import itemgetter

from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.consumer.buffer_manager import gate_buffers
from flinknet.errors import (
    ConfigurationError,
    InsufficientNetworkBuffersError,
    InsufficientSlotsError,
)
from flinknet.net.address import is_loopback
from flinknet.partition.result_partition import pool_size
from flinknet.task.deployment import SubtaskDescriptor, WorkerOffer, plan_deployment
from flinknet.task.graph import JobGraph

__all__ = ["buffers_required", "check_cluster", "check_job"]


def check_cluster(config: FlinknetConfig) -> None:
    """Raise ConfigurationError if the cluster cannot be started on this machine."""
    _check_host(config.cluster)
    _check_memory(config)
    cluster = config.cluster
    if cluster.coordinator_port:
        _check_port(cluster.host, cluster.coordinator_port, "cluster.coordinator_port")
    if cluster.data_port:
        for port in range(cluster.data_port, cluster.data_port + cluster.workers):
            _check_port(cluster.host, port, "cluster.data_port")


def check_job(graph: JobGraph, config: FlinknetConfig) -> None:
    """Raise InsufficientSlotsError or InsufficientNetworkBuffersError if the job does not fit.

    What counts is an empty cluster of this configuration.
    """
    _check_slots(graph, config.cluster)
    _check_buffers(graph, config)


def buffers_required(
    descriptors: Sequence[SubtaskDescriptor], address: str, config: NetworkConfig
) -> int:
    """Network buffers that subtasks require of the worker whose data plane is at ``address``."""
    partitions = sum(
        pool_size(result.subpartitions, config)[0]
        for descriptor in descriptors
        for result in descriptor.results
    )
    remote_channels = [
        sum(location.address != address for location in gate.locations)
        for descriptor in descriptors
        for gate in descriptor.gates
    ]
    gates = [
        gate_buffers(channels, config.buffers_per_channel, config.floating_buffers_per_gate)
        for channels in remote_channels
    ]
    return partitions + sum(
        gate.floating_min + gate.exclusive_per_channel * channels
        for gate, channels in zip(gates, remote_channels, strict=True)
        if channels
    )


def _check_slots(graph: JobGraph, cluster: ClusterConfig) -> None:
    needed = graph.slots_required()
    offered = cluster.workers * cluster.slots_per_worker
    if needed > offered:
        workers = -(-needed // cluster.slots_per_worker)
        slots = -(-needed // cluster.workers)
        raise InsufficientSlotsError(
            f'job "{graph.name}" needs {needed} slots, but {cluster.workers} workers with '
            f"{cluster.slots_per_worker} slots each offer {offered}: use --workers {workers} "
            f"(cluster.workers) or --slots {slots} (cluster.slots_per_worker), or lower the job's "
            "parallelism"
        )


def _check_buffers(graph: JobGraph, config: FlinknetConfig) -> None:
    network, cluster = config.network, config.cluster
    # Only who is where matters for the need, so names stand for addresses.
    names = [f"worker-{number}" for number in range(cluster.workers)]
    offers = [WorkerOffer(name, name, cluster.slots_per_worker) for name in names]
    plan = plan_deployment(graph, "preflight", 0, offers)
    needs = {name: buffers_required(plan[name], name, network) for name in names}
    worker, needed = max(needs.items(), key=itemgetter(1))
    if needed > network.segments:
        raise InsufficientNetworkBuffersError(
            f'job "{graph.name}" needs {needed} network buffers of {network.segment_bytes} bytes '
            f"on {worker}, but network.network_memory_bytes = {network.network_memory_bytes} holds "
            f"{network.segments}: raise it to at least {needed * network.segment_bytes}, or lower "
            "network.buffers_per_channel, network.segment_bytes or the job's parallelism"
        )


def _check_host(cluster: ClusterConfig) -> None:
    if not is_loopback(cluster.host):
        raise ConfigurationError(
            f"cluster.host is {cluster.host}: a local cluster listens on loopback only, because "
            "its data plane is not authenticated; use 127.0.0.1 or ::1"
        )


def _check_memory(config: FlinknetConfig) -> None:
    per_worker = config.network.network_memory_bytes
    needed = per_worker * config.cluster.workers
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > installed:
        raise ConfigurationError(
            f"{config.cluster.workers} workers with network.network_memory_bytes = {per_worker} "
            f"each need {needed} bytes, but this machine has {installed}: use fewer workers "
            "(--workers) or less network memory"
        )


def _check_port(host: str, port: int, option: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the servers do it, so that a port in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"port {port} of {host} cannot be used ({error.strerror}): stop what listens "
                f"there, or choose another {option}, or 0 for free ports"
            ) from error

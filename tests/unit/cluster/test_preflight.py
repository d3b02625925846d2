"""What cannot work is refused before anything starts, with the numbers and the option to change."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from flinknet.cluster.preflight import buffers_required, check_cluster, check_job
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.errors import (
    ConfigurationError,
    InsufficientNetworkBuffersError,
    InsufficientSlotsError,
)
from flinknet.net.environment import NetworkEnvironment
from flinknet.task.deployment import SubtaskDescriptor, WorkerOffer, plan_deployment
from flinknet.task.graph import JobGraph
from flinknet.task.subtask import Subtask
from tests.unit.cluster.graphs import keyed_graph


def config(**cluster: object) -> FlinknetConfig:
    return FlinknetConfig(cluster=ClusterConfig(**cluster))  # type: ignore[arg-type]


def test_a_default_cluster_can_start() -> None:
    check_cluster(FlinknetConfig())


@pytest.mark.parametrize("option", ["coordinator_port", "data_port"])
def test_a_port_in_use_is_refused(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"port {port} .*cluster.{option}, or 0"):
            check_cluster(config(workers=1, **{option: port}))
    check_cluster(config(workers=1, **{option: port}))


def test_every_data_port_is_checked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # The two ports before it may be in use as well.
        with pytest.raises(ConfigurationError, match=f"port ({port - 2}|{port - 1}|{port}) "):
            check_cluster(config(data_port=port - 2, workers=3))


def test_an_address_that_others_can_reach_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"0\.0\.0\.0.*loopback only.*127\.0\.0\.1"):
        check_cluster(config(host="0.0.0.0"))


def test_more_memory_than_the_machine_has_is_refused() -> None:
    huge = replace(config(workers=1000), network=NetworkConfig(network_memory_bytes=2**40))
    with pytest.raises(ConfigurationError, match=r"1000 workers.*network_memory_bytes.*--workers"):
        check_cluster(huge)


def test_too_few_slots_name_what_would_do() -> None:
    graph = keyed_graph(parallelism=7)
    with pytest.raises(
        InsufficientSlotsError,
        match=r"needs 7 slots, but 2 workers with 2 slots each offer 4: .*--workers 4 .*--slots 4 ",
    ):
        check_job(graph, FlinknetConfig())
    check_job(graph, config(workers=4))
    check_job(graph, config(slots_per_worker=4))


def network_of(buffers: int, config: FlinknetConfig) -> FlinknetConfig:
    memory = buffers * config.network.segment_bytes
    return replace(config, network=replace(config.network, network_memory_bytes=memory))


def test_too_few_buffers_name_what_would_do() -> None:
    """The source needs 4 + 1 buffers, each of 2 remote sinks 1 channel x 2 + 1."""
    graph = keyed_graph(parallelism=4)
    with pytest.raises(
        InsufficientNetworkBuffersError,
        match=r"needs 6 network buffers of 32768 bytes on worker-1.* at least 196608",
    ):
        check_job(graph, network_of(5, FlinknetConfig()))
    check_job(graph, network_of(6, FlinknetConfig()))


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
async def test_the_need_is_what_opening_the_subtasks_takes(parallelism: int) -> None:
    """With as many buffers as computed the subtasks open, with one less they do not."""
    graph = keyed_graph(parallelism=parallelism)
    async with NetworkEnvironment() as neighbour:
        needed = buffers_required(
            subtasks_here(graph, "127.0.0.1:9", neighbour.address), "127.0.0.1:9", NetworkConfig()
        )
        await open_with(needed, graph, neighbour.address)
        with pytest.raises(InsufficientNetworkBuffersError):
            await open_with(needed - 1, graph, neighbour.address)


def subtasks_here(graph: JobGraph, here: str, there: str) -> tuple[SubtaskDescriptor, ...]:
    """What one of two workers gets: the source, and every other one of the sinks."""
    offers = [WorkerOffer("here", here, 2), WorkerOffer("there", there, 2)]
    return plan_deployment(graph, "job", 0, offers)["here"]


async def open_with(buffers: int, graph: JobGraph, neighbour: str) -> None:
    config = network_of(buffers, FlinknetConfig()).network
    async with NetworkEnvironment(config=config) as environment:
        subtasks = [
            Subtask(graph, descriptor, environment)
            for descriptor in subtasks_here(graph, environment.address, neighbour)
        ]
        try:
            for subtask in subtasks:
                subtask.open()
        finally:
            for subtask in subtasks:
                subtask.close()

"""The network memory of a job on a cluster: verdicts, settings that improve them, and the bound."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from flinknet.cluster.launch.job_memory import JobMemory
from flinknet.config import FlinknetConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.graph.buffer_needs import BufferNeed, Verdict
from flinknet.graph.channel_state_bound import ChannelStateBound, channel_state_bound
from flinknet.net.memory_bound import MemoryBound, memory_bound
from tests.unit.cluster.graphs import keyed_graph

BUFFER = 33024


def memory_with(buffers: int) -> JobMemory:
    """Return the memory for a source on worker-0 with two of four sinks, and the others on
    worker-1."""
    config = FlinknetConfig()
    network = replace(config.network, network_memory_bytes=buffers * BUFFER)
    return JobMemory.of_graph(keyed_graph(parallelism=4), replace(config, network=network))


def test_each_worker_has_its_need() -> None:
    memory = memory_with(6)

    assert memory.needs == {
        "worker-0": BufferNeed(5, 5, 16, 5, large=22),
        "worker-1": BufferNeed(2, 6, 20, 0, large=44),
    }


@pytest.mark.parametrize(
    ("buffers", "verdict", "settings"),
    [
        (4, Verdict.TOO_SMALL, {"minimum": 5, "required": 6, "comfortable": 20}),
        (5, Verdict.DEGRADED, {"required": 6, "comfortable": 20}),
        (6, Verdict.FITS, {"comfortable": 20}),
        (19, Verdict.FITS, {"comfortable": 20}),
        (20, Verdict.COMFORTABLE, {}),
    ],
)
def test_the_worker_with_the_largest_need_decides(
    buffers: int, verdict: Verdict, settings: dict[str, int]
) -> None:
    memory = memory_with(buffers)

    assert memory.verdict == verdict
    assert memory.settings() == {level: need * BUFFER for level, need in settings.items()}


def test_a_setting_reaches_its_level() -> None:
    """With one byte less it does not."""
    for level, reached in (
        ("minimum", Verdict.DEGRADED),
        ("required", Verdict.FITS),
        ("comfortable", Verdict.COMFORTABLE),
    ):
        memory = memory_with(4)
        network = memory.config.network
        setting = memory.settings()[level]  # type: ignore[index]
        for bytes_, expected in ((setting, True), (setting - 1, False)):
            config = replace(memory.config, network=replace(network, network_memory_bytes=bytes_))
            verdict = JobMemory.of_graph(keyed_graph(parallelism=4), config).verdict
            assert (verdict == reached) is expected


def test_the_bound_covers_the_exchange_of_each_worker() -> None:
    memory = memory_with(6)

    assert memory.bounds() == {
        worker.worker_id: memory_bound(memory.config.network, worker.shape)
        for worker in memory.workers
    }


def test_the_data_that_unaligned_checkpoints_store_is_known() -> None:
    graph = keyed_graph(parallelism=4)
    unaligned = JobCheckpointingConfig(1000.0, unaligned=True)
    for checkpointing in (None, replace(unaligned, unaligned=False)):
        memory = JobMemory.of_graph(
            replace(graph, checkpointing=checkpointing), memory_with(6).config
        )
        assert memory.channel_state() == {}
        shown = memory.to_dict()
        assert (shown["channel_state"], shown["workers"][0]["channel_state"]) == (None, None)

    memory = JobMemory.of_graph(replace(graph, checkpointing=unaligned), memory_with(6).config)
    bounds = memory.channel_state()
    assert bounds == {
        worker.worker_id: channel_state_bound(worker, memory.config) for worker in memory.workers
    }
    shown = json.loads(json.dumps(memory.to_dict()))
    assert shown["channel_state"] == {
        "at_once": sum(bound.at_once for bound in bounds.values()),
        "limit": 5 * memory.config.checkpointing.channel_state_bytes_max,
    }
    bound = shown["workers"][1]["channel_state"]
    assert bound.pop("at_once") == ChannelStateBound(**bound).at_once


def test_everything_is_in_the_json() -> None:
    memory = memory_with(6)

    shown = json.loads(json.dumps(memory.to_dict()))

    assert (shown["job"], shown["verdict"], shown["buffers"]) == ("sums", "fits", 6)
    assert shown["degraded_gate_limit"] is None
    assert memory_with(5).to_dict()["degraded_gate_limit"] == 2
    assert shown["network_memory_bytes"] == 6 * shown["segment_bytes"] == 6 * BUFFER
    assert shown["network_memory_bytes_for"] == {"comfortable": 20 * BUFFER}
    worker = shown["workers"][1]
    assert (worker["worker_id"], worker["verdict"]) == ("worker-1", "fits")
    assert worker["need"] == asdict(memory.needs["worker-1"])
    assert [owner["need"]["required"] for owner in worker["owners"]] == [3, 3]
    bound = dict(worker["memory_bound"])
    assert bound.pop("total") == MemoryBound(**bound).total

"""The bound of an unaligned checkpoint's channel state: buffers, their copies, records, and the
limit."""

from __future__ import annotations

from dataclasses import replace

from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.graph.buffer_needs import BufferOwner, WorkerNeeds
from flinknet.graph.channel_state_bound import channel_state_bound

SEGMENT, RECORD = 4096, 8192
CONFIG = FlinknetConfig(
    network=NetworkConfig(
        segment_bytes=SEGMENT,
        network_memory_bytes=100 * SEGMENT,
        record_bytes_max=RECORD,
        buffers_per_channel=2,
        floating_buffers_per_gate=8,
        overdraft_buffers_per_partition=5,
        buffers_per_subpartition_max=10,
        large_record_buffers_max=11,
    )
)
GATE = BufferOwner("reduce", "gate", "HASH from map", local=1, remote=3)
PARTITION = BufferOwner("map", "partition", "HASH to reduce", local=1, remote=3)
BUFFER = SEGMENT + 4


def worker(*owners: BufferOwner) -> WorkerNeeds:
    return WorkerNeeds("worker", owners, frozenset(), len(owners), readers=1)


def test_a_partition_stores_what_its_pool_and_its_overdraft_hold() -> None:
    bound = channel_state_bound(worker(PARTITION), CONFIG)
    assert bound.network_buffers == (4 * 2 + 8 + 5 + 1) * BUFFER
    assert (bound.broadcast_copies, bound.unfinished_records) == (0, 0)
    assert bound.at_once == bound.network_buffers


def test_a_gate_stores_what_its_remote_channels_hold_and_parts_of_records() -> None:
    """The buffers of local channels belong to their producer. Parts of records are stored, too."""
    bound = channel_state_bound(worker(GATE), CONFIG)
    assert bound.network_buffers == (3 * 2 + 8 + 1) * BUFFER
    part = RECORD + 4 * (RECORD // 1024 + 1)
    rest = RECORD + 4 + SEGMENT * 5
    assert bound.unfinished_records == 4 * part + rest
    assert bound.at_once == bound.network_buffers + bound.unfinished_records


def test_broadcast_buffers_are_stored_for_each_consumer() -> None:
    bound = channel_state_bound(worker(replace(PARTITION, is_broadcast=True)), CONFIG)
    assert bound.broadcast_copies == 3 * bound.network_buffers == 3 * 22 * BUFFER


def test_there_are_no_more_buffers_than_the_worker_has() -> None:
    few = replace(CONFIG, network=replace(CONFIG.network, network_memory_bytes=10 * SEGMENT))
    broadcast = replace(PARTITION, is_broadcast=True)
    bound = channel_state_bound(worker(GATE, broadcast), few)
    assert bound.network_buffers == 10 * BUFFER
    assert bound.broadcast_copies == 3 * 10 * BUFFER


def test_a_checkpoint_beyond_the_limit_is_given_up() -> None:
    low = replace(CONFIG.checkpointing, channel_state_bytes_max=2**20)
    large = replace(CONFIG.network, record_bytes_max=2**20)
    bound = channel_state_bound(worker(GATE, PARTITION), FlinknetConfig(large, checkpointing=low))
    assert bound.limit == bound.at_once == 2 * 2**20

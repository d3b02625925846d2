"""The statistics of a gate."""

from __future__ import annotations

import pytest

from flinknet.consumer.input_gate import InputGate
from flinknet.partition.registry import PartitionRegistry
from tests.unit.arrangements import (
    HERE,
    THERE,
    connect_local,
    deliver,
    make_gate,
    make_partition,
    make_remote_gate,
    put,
)


def poll(gate: InputGate) -> None:
    polled = gate.poll()
    assert polled is not None
    polled[1].recycle()


def usages(gate: InputGate) -> tuple[float, float, float]:
    counts = gate.statistics()
    return counts.floating_buffers_usage, counts.exclusive_buffers_usage, counts.pool_usage


def test_queues_of_a_gate() -> None:
    """Section 5: inputQueueLength, inputQueueSize (0 for local channels), min, max and average."""
    gate, pool = make_gate(THERE, HERE, THERE)
    assert gate.statistics().queue_lengths == (0, 0, 0, 0)
    [first, second] = gate.remote_channels
    deliver(first, 0, b"abc")
    deliver(first, 1, b"defgh")
    deliver(second, 0, b"i")
    registry = PartitionRegistry(10.0)
    partition, _ = make_partition(partition_id="p1", pool=pool)
    registry.register(partition)
    connect_local(gate, registry)
    for content in (b"local", b"and", b"open"):
        put(partition, 0, content)
    counts = gate.statistics()
    assert counts.queue_lengths[:3] == (5, 1, 2), "an open buffer is not offered"
    assert counts.queue_lengths.average == pytest.approx(5 / 3)
    assert counts.queued_bytes == 9
    partition.release()


def test_local_and_remote_input_is_counted() -> None:
    """Section 5: numBytesInLocal, numBytesInRemote, numBuffersInLocal, numBuffersInRemote."""
    gate, pool = make_gate(THERE, HERE)
    deliver(gate.remote_channels[0], 0, b"abc")
    deliver(gate.remote_channels[0], 1, b"defgh")
    registry = PartitionRegistry(10.0)
    partition, _ = make_partition(partition_id="p1", pool=pool)
    registry.register(partition)
    connect_local(gate, registry)
    put(partition, 0, b"local")
    partition.flush_all()
    for _ in range(3):
        poll(gate)
    counts = gate.statistics()
    assert (counts.buffers_in_remote, counts.bytes_in_remote) == (2, 8)
    assert (counts.buffers_in_local, counts.bytes_in_local) == (1, 5)
    partition.release()


def test_buffers_that_hold_data() -> None:
    """Section 5: inputFloatingBuffersUsage, inputExclusiveBuffersUsage, inPoolUsage; a buffer that
    is free in a channel is not in use."""
    gate, _ = make_remote_gate(2, buffers_per_channel=2, floating_buffers_per_gate=4)
    [channel, _] = gate.remote_channels
    assert usages(gate) == (0, 0, 0)
    deliver(channel, 0)
    assert usages(gate) == (0, 1 / 4, 1 / 8)
    assert gate.statistics().floating_pool.in_use == 1, "one to replace it, and free"
    channel.credit.take()
    deliver(channel, 1)
    assert usages(gate) == (1 / 4, 1 / 4, 2 / 8), "floating ones are taken first"
    channel.credit.take()
    deliver(channel, 2, backlog=3)
    assert usages(gate) == (2 / 4, 1 / 4, 3 / 8)
    for _ in range(3):
        poll(gate)
    assert usages(gate) == (0, 0, 0)
    gate.release()
    assert usages(gate) == (0, 0, 0)


def test_a_gate_of_local_channels_has_no_buffers_to_use() -> None:
    """Section 5: inPoolUsage ignores local channels."""
    gate, _ = make_gate(HERE, HERE)
    assert usages(gate) == (0, 0, 0)

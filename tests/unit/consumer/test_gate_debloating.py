from __future__ import annotations

from typing import Any

import pytest

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import BufferDebloatConfig
from flinknet.consumer.input_channel import UnknownLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.partition.registry import PartitionRegistry
from tests.unit.arrangements import (
    HERE,
    THERE,
    Client,
    assert_everything_returned,
    connect_local,
    deliver,
    end,
    make_config,
    make_gate,
    make_partition,
    put,
)

SEGMENT_BYTES = 1000


def debloating(**options: Any) -> BufferDebloatConfig:
    """Follow every value at once."""
    return BufferDebloatConfig(
        **{"enabled": True, "target_ms": 1000, "samples": 1, "segment_bytes_min": 10, **options}
    )


def make_debloating_gate(
    *addresses: str, client: Client | None = None, **options: Any
) -> tuple[InputGate, NetworkBufferPool]:
    gate, pool = make_gate(
        *addresses,
        segment_bytes=SEGMENT_BYTES,
        pool=NetworkBufferPool(64, SEGMENT_BYTES),
        client=client,
        debloat=debloating(**options),
    )
    gate.debloating.end_wait(0.0)
    return gate, pool


def receive(gate: InputGate, channel: int, size: int, *, backlog: int = 0) -> None:
    """Let data arrive, and process it."""
    remote = gate.remote_channels[channel]
    deliver(remote, remote.buffers_in, bytes(size), backlog=backlog)
    polled = gate.poll()
    assert polled is not None
    polled[1].recycle()
    remote.credit.take()


def sizes_told(client: Client) -> list[tuple[str, int]]:
    return [message for message in client.sent if message[0].startswith("size")]


def test_the_size_is_told_to_every_channel_that_goes_on() -> None:
    """I9."""
    client = Client()
    gate, pool = make_debloating_gate(THERE, THERE, THERE, client=client)
    receive(gate, 0, 300)
    end(gate, 1)
    gate.poll()
    gate.debloating.recalculate(1.0)
    assert sizes_told(client) == [("size 303", 0), ("size 303", 2)]
    gate.release()
    assert_everything_returned(pool)


def test_buffers_in_use_are_summed() -> None:
    """I10: those of all channels, unknown and local ones too."""
    gate, pool = make_debloating_gate(THERE, HERE, THERE)
    partition, _ = make_partition(pool=pool, partition_id="p1")
    registry = PartitionRegistry(10.0)
    registry.register(partition)
    connect_local(gate, registry)
    assert gate.debloating.buffers_in_use == 0
    deliver(gate.remote_channels[0], 0, backlog=3)
    deliver(gate.remote_channels[1], 0)
    for _ in range(3):
        put(partition, 0, b"data")
    assert gate.debloating.buffers_in_use == 4 + 1 + 2
    gate.release()
    assert gate.debloating.buffers_in_use == 0
    partition.release()


def test_the_more_buffers_are_on_their_way_the_smaller_they_are_to_be() -> None:
    """Census 1.8, P2: what a slow reader cannot consume within the target is not to be sent."""
    client = Client()
    gate, _ = make_debloating_gate(THERE, client=client)
    receive(gate, 0, 800, backlog=4)
    assert gate.debloating.buffers_in_use == 4
    gate.debloating.recalculate(1.0)
    assert sizes_told(client) == [("size 200", 0)]
    debloater = gate.statistics().debloating
    assert debloater == (200, 1000.0)


def test_the_time_in_which_the_reader_waits_does_not_count() -> None:
    """P3 at the gate."""
    client = Client()
    gate, _ = make_debloating_gate(THERE, client=client)
    receive(gate, 0, 300)
    gate.debloating.begin_wait(1.0)
    gate.debloating.end_wait(100.0)
    gate.debloating.recalculate(100.0)
    assert sizes_told(client) == [("size 300", 0)]


def test_a_reader_that_is_fast_again_gets_full_buffers_again() -> None:
    client = Client()
    gate, _ = make_debloating_gate(THERE, client=client)
    receive(gate, 0, 400)
    gate.debloating.recalculate(1.0)
    for now in (1.001, 1.002, 1.003):
        receive(gate, 0, 400)
        gate.debloating.recalculate(now)
    assert sizes_told(client) == [("size 400", 0), ("size 800", 0), ("size 1000", 0)]


def test_before_the_first_byte_nothing_changes() -> None:
    client = Client()
    gate, _ = make_debloating_gate(THERE, client=client)
    gate.debloating.recalculate(100.0)
    assert gate.statistics().debloating == (SEGMENT_BYTES, 0.0)
    assert sizes_told(client) == []


def test_without_debloating_nothing_changes() -> None:
    client = Client()
    gate, _ = make_gate(THERE, client=client)
    receive(gate, 0, 10)
    gate.debloating.end_wait(0.0)
    gate.debloating.recalculate(1000.0)
    assert gate.statistics().debloating is None
    assert sizes_told(client) == []


def test_a_local_producer_fills_its_buffers_less() -> None:
    """H4: the size reaches the view; before the partition is there, nobody learns of it."""
    gate, pool = make_debloating_gate(HERE, HERE)
    registry = PartitionRegistry(10.0)
    partitions = [make_partition(pool=pool, partition_id=name)[0] for name in ("p0", "p1")]
    registry.register(partitions[0])
    connect_local(gate, registry)
    put(partitions[0], 0, bytes(300))
    partitions[0].flush(0)
    polled = gate.poll()
    assert polled is not None
    polled[1].recycle()
    gate.debloating.recalculate(1.0)
    registry.register(partitions[1])
    assert [each.subpartitions[0].buffer_bytes for each in partitions] == [300, SEGMENT_BYTES]
    builder = partitions[0].request_builder(0)
    assert builder is not None
    assert builder.capacity == 300
    gate.release()
    for partition in partitions:
        partition.release()
    assert_everything_returned(pool)


def test_gates_of_one_task_are_sized_apart() -> None:
    """Census 10, row 10: inputs of unequal rates each get the size that fits."""
    slow, _ = make_debloating_gate(THERE)
    fast, _ = make_debloating_gate(THERE)
    receive(slow, 0, 100)
    receive(fast, 0, 900)
    for gate in (slow, fast):
        gate.debloating.recalculate(1.0)
    sizes = []
    for gate in (slow, fast):
        counts = gate.statistics().debloating
        assert counts is not None
        sizes.append(counts.buffer_bytes)
    assert sizes == [100, 900] or sizes == [100, SEGMENT_BYTES]


def test_an_unknown_channel_is_told_nothing() -> None:
    pool = NetworkBufferPool(64, SEGMENT_BYTES)
    config = make_config(segment_bytes=SEGMENT_BYTES, debloat=debloating())
    client = Client()
    gate = InputGate("gate", [UnknownLocation("p", 0)], HERE, pool, config)
    gate.setup(lambda: None)
    gate.debloating.end_wait(0.0)
    gate.debloating.recalculate(1.0)
    gate.release()
    assert client.sent == []
    assert_everything_returned(pool)


@pytest.mark.parametrize("state", ["released", "finished"])
def test_a_gate_that_is_done_tells_nobody(state: str) -> None:
    """G15: a size announced on a released channel would be an error."""
    client = Client()
    gate, pool = make_debloating_gate(THERE, client=client)
    receive(gate, 0, 300)
    if state == "finished":
        end(gate, 0)
        gate.poll()
    else:
        gate.release()
    gate.debloating.recalculate(1.0)
    assert sizes_told(client) == []
    gate.release()
    assert_everything_returned(pool)

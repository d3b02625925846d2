"""The memory bound: its parts, and that it does not underestimate the sizes of objects."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgpack
import pytest

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.segment import MemorySegment
from flinknet.config import NetworkConfig, WireLimits
from flinknet.connection.link import Link
from flinknet.connection.session import Session
from flinknet.connection.subpartition_reader import SubpartitionReader
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.net import memory_bound as module
from flinknet.net.memory_bound import ExchangeShape, expected_memory, memory_bound
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.records.serialization.serializer import RecordUnpacker
from tests.naming import spelled
from tests.traced_memory import traced_memory
from tests.unit.arrangements import HERE, THERE
from tests.unit.connection.joined import Worker

MIB = 1024 * 1024
NOTHING = ExchangeShape(0, 0, 0, 0, 0, 0, readers=0, keyed_partitions=0)
CONFIG = NetworkConfig()


# -- the parts -------------------------------------------------------------------------------------


def test_a_worker_that_exchanges_nothing_holds_its_buffers_and_strangers() -> None:
    bound = memory_bound(CONFIG, NOTHING)

    assert bound.network_memory == 64 * MIB
    assert bound.handshakes > 0
    for part in set(bound._fields) - {"network_memory", "handshakes", "objects"}:
        assert getattr(bound, part) == 0
    assert bound.total == sum(bound)


@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        (
            NOTHING._replace(connections=2),
            {
                "sockets": 2 * 500 * 33_024,
                "receive_buffers": 2 * CONFIG.receive_buffer_bytes,
                "control_messages": (2 * 2 + 1) * 16 * MIB + 2 * 2 * MIB,
                "requests": 2 * 65_536 * (1024 + 160),
            },
        ),
        (
            NOTHING._replace(gates=2),
            {
                "reassembly": 64 * MIB * 9 // 8 + CONFIG.record_spill_bytes,
                "records_reused": 24 * MIB,
            },
        ),
        (
            NOTHING._replace(readers=2),
            {
                "records_read": 64 * MIB
                + 2 * (4 * (64 * MIB + 33_024) + (1_048_576 + 33_024) * 320),
            },
        ),
        (NOTHING._replace(keyed_partitions=2), {"remembered_keys": 2 * 16 * MIB}),
        (NOTHING._replace(remote_channels=3), {"events": 3 * 1_000 * (1024 + 256)}),
        (NOTHING._replace(local_channels=3), {"events": 0}),
        (NOTHING._replace(subpartitions=3), {"events": 3 * 1_003 * (1024 + 256)}),
        (NOTHING._replace(partitions=2), {"records_written": 2 * (128 * MIB + 256 * 1024)}),
    ],
)
def test_a_part_grows_with_what_it_is_made_of(shape: ExchangeShape, parts: dict[str, int]) -> None:
    bound, nothing = memory_bound(CONFIG, shape), memory_bound(CONFIG, NOTHING)

    assert {part: getattr(bound, part) for part in parts} == parts
    for part in set(bound._fields) - set(parts) - {"objects"}:
        assert getattr(bound, part) == getattr(nothing, part)


def test_tls_takes_memory_for_each_connection_and_each_stranger() -> None:
    plain = memory_bound(CONFIG, NOTHING._replace(connections=2))
    bound = memory_bound(CONFIG, NOTHING._replace(connections=2), tls=True)
    each = 2 * 256 * 1024 + 3 * CONFIG.outbox_bytes_max
    assert bound.tls == 2 * each + (2 + 512) * 64 * 1024
    assert bound == plain._replace(tls=bound.tls)


def test_readers_are_bounded_for_the_worker_however_many_peers_it_has() -> None:
    few, many = (
        memory_bound(CONFIG, NOTHING._replace(connections=connections)).requests
        for connections in (2, 8)
    )
    assert many - few == 6 * 65_536 * 160, "what a connection keeps of the channels it was refused"


def test_a_socket_holds_no_more_buffers_than_there_are() -> None:
    config = replace(CONFIG, network_memory_bytes=4 * CONFIG.segment_bytes)

    assert memory_bound(config, NOTHING._replace(connections=1)).sockets == 4 * 33_024


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"network_memory_bytes": 128 * MIB}, "network_memory"),
        ({"reassembly_memory_bytes": 128 * MIB}, "reassembly"),
        ({"record_bytes_max": 128 * MIB}, "records_read"),
        ({"record_elements_max": 2_000_000}, "records_read"),
        ({"remembered_keys_bytes": 32 * MIB}, "remembered_keys"),
        ({"wire": WireLimits(control_bytes_max=32 * MIB)}, "control_messages"),
        ({"wire": WireLimits(events_per_channel_max=2_000)}, "events"),
        (
            {
                "wire": WireLimits(
                    channels_per_connection_max=131_072, unused_requests_per_minute_max=131_072
                )
            },
            "requests",
        ),
        ({"wire": WireLimits(pending_handshakes_max=512)}, "handshakes"),
    ],
)
def test_a_part_follows_its_limit(changes: dict[str, Any], part: str) -> None:
    shape = ExchangeShape(*[1] * len(ExchangeShape._fields))
    before = getattr(memory_bound(CONFIG, shape), part)

    after = getattr(memory_bound(replace(CONFIG, **changes), shape), part)

    assert 1.2 * before < after <= 2.1 * before


def test_the_expected_memory_grows_with_the_exchange_below_the_bound() -> None:
    shape, before = NOTHING, expected_memory(CONFIG, NOTHING).total
    assert before == CONFIG.network_memory_bytes
    for field in ExchangeShape._fields:
        shape = shape._replace(**{field: 100})
        expected, bound = expected_memory(CONFIG, shape), memory_bound(CONFIG, shape)
        assert before + 100 * 1024 * (field != "keyed_partitions") <= expected.total < bound.total
        before = expected.total
    assert before < 2 * CONFIG.network_memory_bytes, "records of the largest size are not expected"


# -- the sizes of objects --------------------------------------------------------------------------


def allocated(make: Callable[[int], object], number: int = 200) -> float:
    """Return the bytes that each of the objects made by ``make`` takes."""
    make(-1)
    gc.collect()
    with traced_memory() as memory:
        before = memory.now
        kept = [make(index) for index in range(number)]
        return (memory.now - before) / len(kept)


def test_objects_around_segments_and_events() -> None:
    segment = allocated(lambda _: MemorySegment(64)) - 64
    buffer = allocated(lambda _: Buffer(DataType.DATA_BUFFER, None, None, 1))
    view = allocated(lambda _: MemorySegment(64).view(64)) - 64

    assert segment + buffer + view < module._SEGMENT_OBJECTS_BYTES
    event = allocated(lambda _: Buffer.event(DataType.EVENT_BUFFER, bytes(1024))) - 1024
    assert event < module._EVENT_OBJECTS_BYTES


def test_objects_of_gates_and_partitions() -> None:
    config = replace(CONFIG, segment_bytes=64, network_memory_bytes=64 * 100_000)
    worker = Worker(HERE, THERE, config, lambda: None)

    def gate(channels: int) -> float:
        return allocated(
            lambda number: worker.make_gate(
                *(PartitionLocation(THERE, f"gate {number}", index) for index in range(channels))
            ),
            20,
        )

    def partition(subpartitions: int) -> float:
        return allocated(
            lambda number: worker.make_partition(f"{subpartitions} {number}", subpartitions), 20
        )

    one_channel, one_subpartition = gate(1), partition(1)
    assert max(one_channel, one_subpartition) < module._OWNER_OBJECTS_BYTES
    channel, subpartition = (
        (gate(101) - one_channel) / 100,
        (partition(101) - one_subpartition) / 100,
    )
    assert module._CHANNEL_EXPECTED_BYTES < channel < module._CHANNEL_OBJECTS_BYTES
    assert module._SUBPARTITION_EXPECTED_BYTES < subpartition < module._SUBPARTITION_OBJECTS_BYTES


def test_objects_of_connections_and_of_what_peers_request() -> None:
    registry = PartitionRegistry(10.0)
    receive_buffer = CONFIG.receive_buffer_bytes

    def connect(_: int) -> object:
        return Link(Session("peer", registry, CONFIG), CONFIG, lambda: None)

    connection = allocated(connect) - receive_buffer
    assert module._CONNECTION_EXPECTED_BYTES < connection < module._CONNECTION_OBJECTS_BYTES

    session = Session("peer", registry, CONFIG)

    def request(number: int) -> None:
        reader = SubpartitionReader(
            session,
            number,
            2,
            CONFIG.wire.credit_per_channel_max,
            events_max=CONFIG.wire.events_per_channel_max,
        )
        registry.request(wire_partition_id(str(number)), 0, reader, 0.0)

    assert allocated(request) < module._READER_OBJECTS_BYTES


@pytest.mark.parametrize(
    "element",
    [
        {},
        (),
        {0: {}},
        {"\U0001f600": 2**63},
        {datetime(2026, 1, 1, 0, 0, 0, 1, UTC): datetime(2026, 1, 1, 0, 0, 0, 1, UTC)},
        2**63,
        "\U0001f600",
    ],
    ids=spelled,
)
def test_objects_of_a_record(element: object) -> None:
    """The size of an element is within the bound, for records with the largest number of
    elements."""
    unpacker = RecordUnpacker(record_bytes_max=MIB, record_elements_max=20_000)

    def unpack(packed: bytes, _: int) -> object:
        return unpacker.record(packed)

    nested: object = element
    for _ in range(100):
        nested = {0: nested}
    for record, elements in (([element] * 5_000, 10_000), (nested, 101)):
        packed = msgpack.packb(record, datetime=True)
        bound = module._TEXT_FACTOR * len(packed) + elements * module._ELEMENT_BYTES
        assert allocated(partial(unpack, packed), 3) < bound

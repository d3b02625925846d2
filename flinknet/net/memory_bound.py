"""The memory of a worker's exchange beyond a fresh process: the expected memory, and the bound.

An ordinary job takes what is *expected*: its records are small beside ``record_bytes_max``, and its
peers keep to the protocol. The *bound* is the most that can be held. Each part of it follows from
limits in ``config/`` and from what the worker exchanges; so the bound can be printed before
anything runs, and holds whatever producers, consumers and peers do. Not in it: what the kernel
holds (socket buffers, a spill file in a file system that is memory), what user functions keep or
make of record batches, what a keyed exchange of columns needs to cut one (its columns once more,
which are no more than ``record_bytes_max``, all parts as bytes, and some words for each row), and
connections, gates or partitions beyond those that were counted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Self

from flinknet.config import REUSED_RECORDS_BYTES, NetworkConfig, WireLimits
from flinknet.connection.outbox import PIECES_PER_WRITE_MAX
from flinknet.consumer.input_gate import InputGate
from flinknet.partition.result_partition import ResultPartition

__all__ = ["ExchangeShape", "ExpectedMemory", "MemoryBound", "expected_memory", "memory_bound"]

KIB = 1024

_BUFFERS_PER_WRITE_MAX = PIECES_PER_WRITE_MAX // 2
"""A buffer is sent as two pieces."""

_CONTROL_COPIES = 2
"""Queued, and those before them, copied by an event loop whose socket is full. It makes room for an
eighth more. Those that are joined for the socket are one connection's at a time: that is done in
one go, and the queue is empty then."""

_WRITTEN_COPIES = 2
"""The serialiser's memory, which it keeps, and the bytes that go into the buffers."""

_TEXT_FACTOR = 4
"""A text takes four bytes for each character, if one of them needs them; its bytes may be one."""

_FLAT_RECORD_FACTOR = 48
"""What a flat record takes for each of its bytes: most if it is arrays of one element, each in one
another."""

_ELEMENT_BYTES = 320
"""The most that an element of a record takes beside its text: a map of one entry, with its key."""

# Python's objects, measured with tracemalloc on Python 3.11 and rounded up.
_SEGMENT_OBJECTS_BYTES = KIB
"""Around a segment: itself, a buffer, its builder, a view and a frame header."""
_EVENT_OBJECTS_BYTES = 256
_EVENTS_THAT_NEED_NO_ROOM = 3
"""In the queue of a subpartition: two ends and a cancel marker."""
_CHANNEL_OBJECTS_BYTES = 4 * KIB
_SUBPARTITION_OBJECTS_BYTES = 2 * KIB
_READER_OBJECTS_BYTES = KIB
"""A subpartition reader, and its place where it waits for its partition."""
_REFUSED_CHANNEL_BYTES = 160
"""The number of a channel that was refused, until it is cancelled, in a dictionary that grows."""
_OWNER_OBJECTS_BYTES = 16 * KIB
"""A gate with its reader, or a partition with its writer."""
_CONNECTION_OBJECTS_BYTES = 16 * KIB
_RELEASED_PARTITION_BYTES = 4 * KIB
"""The id of a partition that is gone, why, and who may know."""
_HANDSHAKE_OBJECTS_BYTES = 8 * KIB
_TLS_OBJECTS_BYTES = 64 * KIB
"""OpenSSL's state of a connection, with the peer's certificates."""
_TLS_READ_BYTES = 256 * KIB
"""What an event loop reads of a socket at once."""
_TLS_READ_COPIES = 2
_TLS_WRITE_COPIES = 3
_SERIALISER_BYTES = 256 * KIB
"""What msgpack allocates at once for a packer."""


# For the expected memory: the real sizes, rounded down, with the objects of a task around them.
_CHANNEL_EXPECTED_BYTES = 1536
_SUBPARTITION_EXPECTED_BYTES = KIB
_OWNER_EXPECTED_BYTES = 32 * KIB
_CONNECTION_EXPECTED_BYTES = 3 * KIB
_BUFFER_IN_RECORDS_FACTOR = 2
"""Bytes of objects for each byte of a buffer, if its records are text or numbers."""


class ExchangeShape(NamedTuple):
    """What a worker exchanges, as far as it costs memory."""

    connections: int
    partitions: int
    subpartitions: int
    gates: int
    local_channels: int
    remote_channels: int
    readers: int
    """The readers of all gates: a subtask reads all of its gates with one reader, record by
    record."""
    keyed_partitions: int
    """Partitions whose writer may remember the channels of keys."""

    @classmethod
    def of(
        cls,
        connections: int,
        partitions: Collection[ResultPartition],
        gates: Collection[InputGate],
    ) -> Self:
        """Count what there is; a channel whose producer has no place yet may become remote, each
        gate may have a reader of its own, and each partition a writer that remembers keys."""
        channels = sum(len(gate.channels) for gate in gates)
        local = sum(len(gate.local_channels) for gate in gates)
        subpartitions = sum(len(partition.subpartitions) for partition in partitions)
        return cls(
            connections,
            len(partitions),
            subpartitions,
            len(gates),
            local,
            channels - local,
            readers=len(gates),
            keyed_partitions=len(partitions),
        )


class ExpectedMemory(NamedTuple):
    """Bytes that an ordinary job takes, part by part."""

    network_memory: int
    """All of it: it is there from the start."""
    connections: int
    """Receive buffers, and objects."""
    channels: int
    """Objects of channels and subpartitions."""
    subtasks: int
    """Gates, partitions, readers and writers, and for each reader a buffer's records."""

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self)


def expected_memory(config: NetworkConfig, shape: ExchangeShape) -> ExpectedMemory:
    """Compute what a worker of this configuration is expected to take for this much exchange."""
    channels = shape.local_channels + shape.remote_channels
    return ExpectedMemory(
        network_memory=config.network_memory_bytes,
        connections=shape.connections * (config.receive_buffer_bytes + _CONNECTION_EXPECTED_BYTES),
        channels=channels * _CHANNEL_EXPECTED_BYTES
        + shape.subpartitions * _SUBPARTITION_EXPECTED_BYTES,
        subtasks=(shape.partitions + shape.gates) * _OWNER_EXPECTED_BYTES
        + shape.readers * _BUFFER_IN_RECORDS_FACTOR * config.segment_bytes,
    )


class MemoryBound(NamedTuple):
    """The most bytes, part by part."""

    network_memory: int
    """Every network buffer, in use or not."""
    sockets: int
    """Memory of sent buffers that an event loop still refers to when the buffers have new, and
    copies of flushed parts of buffers that are on their way into the socket."""
    receive_buffers: int
    """One per connection, for what a socket has read and the decoder has not."""
    tls: int
    """With TLS: what is read and not decrypted, written and not sent, and the state of
    handshakes."""
    control_messages: int
    """Those that peers do not read."""
    requests: int
    """Readers that peers have opened, of partitions that exist or not."""
    handshakes: int
    """Peers that have not said who they are, and as many that were turned away."""
    events: int
    """Those that their consumers have not taken, on either side."""
    reassembly: int
    """Records of which a part has arrived and that are not on disk."""
    records_read: int
    """Records of the largest size, one for each reader: the one before belongs to a function, if
    that keeps it. The bytes of one that is being made, which is done in one go."""
    records_reused: int
    """Records of the process that nobody has any more, which the next ones are to fill."""
    records_written: int
    """Records of the largest size being serialised, one per partition."""
    remembered_keys: int
    """Keys whose channel is remembered, by every writer of a keyed exchange."""
    objects: int
    """The Python objects of connections, channels, subpartitions and segments, and what is
    remembered of partitions that are gone."""

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self)


def memory_bound(config: NetworkConfig, shape: ExchangeShape, *, tls: bool = False) -> MemoryBound:
    """Compute the bound for a worker of this configuration that exchanges this much."""
    wire = config.wire
    segments_per_write = min(_BUFFERS_PER_WRITE_MAX, config.segments)
    event_bytes = wire.event_bytes_max + _EVENT_OBJECTS_BYTES
    handshake_bytes = wire.handshake_bytes_max + _HANDSHAKE_OBJECTS_BYTES
    written_bytes = _WRITTEN_COPIES * config.record_bytes_max + _SERIALISER_BYTES
    return MemoryBound(
        network_memory=config.network_memory_bytes,
        sockets=shape.connections * segments_per_write * config.segment_bytes,
        receive_buffers=shape.connections * config.receive_buffer_bytes,
        tls=_tls(config, shape.connections) if tls else 0,
        control_messages=_control_messages(wire, shape.connections),
        requests=_requests(wire, shape.connections),
        handshakes=2 * wire.pending_handshakes_max * handshake_bytes,
        events=(
            (shape.remote_channels + shape.subpartitions) * wire.events_per_channel_max
            + shape.subpartitions * _EVENTS_THAT_NEED_NO_ROOM
        )
        * event_bytes,
        reassembly=_reassembly(config) if shape.gates else 0,
        records_read=_records_read(config, shape.readers),
        records_reused=_FLAT_RECORD_FACTOR * REUSED_RECORDS_BYTES if shape.gates else 0,
        records_written=shape.partitions * written_bytes,
        remembered_keys=shape.keyed_partitions * config.remembered_keys_bytes,
        objects=_objects(config, shape),
    )


def _tls(config: NetworkConfig, connections: int) -> int:
    """What goes out is there in one piece, encrypted, and encrypted in the socket's queue."""
    each = _TLS_READ_COPIES * _TLS_READ_BYTES + _TLS_WRITE_COPIES * config.outbox_bytes_max
    strangers = 2 * config.wire.pending_handshakes_max
    return connections * each + (connections + strangers) * _TLS_OBJECTS_BYTES


def _control_messages(wire: WireLimits, connections: int) -> int:
    joined = wire.control_bytes_max if connections else 0
    copied = wire.control_bytes_max // 8
    return connections * (_CONTROL_COPIES * wire.control_bytes_max + copied) + joined


def _requests(wire: WireLimits, connections: int) -> int:
    """Readers are limited for the worker; what each connection keeps of those refused is not."""
    channels = connections * wire.channels_per_connection_max
    readers = min(channels, wire.channels_per_worker_max)
    return readers * _READER_OBJECTS_BYTES + channels * _REFUSED_CHANNEL_BYTES


def _reassembly(config: NetworkConfig) -> int:
    """Python makes room for an eighth more than it is asked, and moves one record at a time."""
    return config.reassembly_memory_bytes * 9 // 8 + config.record_spill_bytes


def _records_read(config: NetworkConfig, readers: int) -> int:
    """Return the bytes of a record (mapped, if they are on disk) and of the objects of all records.

    With the record that spans buffers come those that stand behind it in its last buffer.
    """
    if not readers:
        return 0
    elements = config.record_elements_max + config.segment_bytes
    record = _TEXT_FACTOR * (config.record_bytes_max + config.segment_bytes)
    return config.record_bytes_max + readers * (record + elements * _ELEMENT_BYTES)


def _objects(config: NetworkConfig, shape: ExchangeShape) -> int:
    return (
        config.ended_partitions_remembered_max * _RELEASED_PARTITION_BYTES
        + config.segments * _SEGMENT_OBJECTS_BYTES
        + shape.connections * _CONNECTION_OBJECTS_BYTES
        + (shape.partitions + shape.gates) * _OWNER_OBJECTS_BYTES
        + shape.subpartitions * _SUBPARTITION_OBJECTS_BYTES
        + (shape.local_channels + shape.remote_channels) * _CHANNEL_OBJECTS_BYTES
    )

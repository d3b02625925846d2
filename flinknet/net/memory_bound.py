"""Memory of a worker's exchange beyond a fresh process: the expected memory, and the bound.

An ordinary job takes the *expected* memory: its records are small compared with
``record_bytes_max``, and its peers keep to the protocol. The *bound* is the most memory that can be
held. Each part of it follows from limits in ``config/`` and from the worker's exchange. The bound
can therefore be printed before anything runs, and it holds for all producers, consumers and peers.

The bound does not include:

- memory of the kernel: socket buffers, and a spill file in a memory file system;
- memory that user functions keep, or make of record batches;
- memory to cut a batch of columns in a keyed exchange: another copy of its columns (at most
  ``record_bytes_max``), all parts as bytes, and some words per row;
- connections, gates and partitions beyond those that were counted.
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
"""Queued messages, and earlier ones that the event loop has copied because their socket was full.
The copy over-allocates by an eighth. Messages are joined for one socket at a time, in one step that
empties the queue."""

_WRITTEN_COPIES = 2
"""The serialiser's memory, which it keeps, and the bytes that go into the buffers."""

_TEXT_FACTOR = 4
"""A text takes four bytes per character if any character needs them; its encoded bytes may be
one."""

_FLAT_RECORD_FACTOR = 48
"""Memory of a flat record for each of its bytes. The worst case is nested arrays of one element."""

_ELEMENT_BYTES = 320
"""Maximum memory of a record's element without its text: a map of one entry, with its key."""

# Python's objects, measured with tracemalloc on Python 3.11 and rounded up.
_SEGMENT_OBJECTS_BYTES = KIB
"""Objects of a segment: itself, a buffer, its builder, a view and a frame header."""
_EVENT_OBJECTS_BYTES = 256
_EVENTS_THAT_NEED_NO_ROOM = 3
"""Events in a subpartition's queue beyond the limit: two ends and a cancel marker."""
_CHANNEL_OBJECTS_BYTES = 4 * KIB
_SUBPARTITION_OBJECTS_BYTES = 2 * KIB
_READER_OBJECTS_BYTES = KIB
"""A subpartition reader, and its entry while it waits for its partition."""
_REFUSED_CHANNEL_BYTES = 160
"""Number of a refused channel until it is cancelled, in a growing dictionary."""
_OWNER_OBJECTS_BYTES = 16 * KIB
"""A gate with its reader, or a partition with its writer."""
_CONNECTION_OBJECTS_BYTES = 16 * KIB
_RELEASED_PARTITION_BYTES = 4 * KIB
"""Id of a released partition, its cause, and the workers that may learn of it."""
_HANDSHAKE_OBJECTS_BYTES = 8 * KIB
_TLS_OBJECTS_BYTES = 64 * KIB
"""OpenSSL's state of a connection, with the peer's certificates."""
_TLS_READ_BYTES = 256 * KIB
"""Bytes that an event loop reads from a socket at once."""
_TLS_READ_COPIES = 2
_TLS_WRITE_COPIES = 3
_SERIALISER_BYTES = 256 * KIB
"""Initial allocation of a msgpack packer."""


# For the expected memory: real sizes, rounded down, with a task's objects.
_CHANNEL_EXPECTED_BYTES = 1536
_SUBPARTITION_EXPECTED_BYTES = KIB
_OWNER_EXPECTED_BYTES = 32 * KIB
_CONNECTION_EXPECTED_BYTES = 3 * KIB
_BUFFER_IN_RECORDS_FACTOR = 2
"""Bytes of objects for each byte of a buffer, if its records are text or numbers."""


class ExchangeShape(NamedTuple):
    """Counts of a worker's exchange that determine its memory."""

    connections: int
    partitions: int
    subpartitions: int
    gates: int
    local_channels: int
    remote_channels: int
    readers: int
    """Readers of all gates. A subtask reads all of its gates with one reader, record by record."""
    keyed_partitions: int
    """Partitions with a writer that may remember the channels of keys."""

    @classmethod
    def of(
        cls,
        connections: int,
        partitions: Collection[ResultPartition],
        gates: Collection[InputGate],
    ) -> Self:
        """Count the current exchange, with the costlier case where it is open.

        A channel with an unknown producer may become remote, each gate may have its own
        reader, and each partition may have a writer that remembers keys.
        """
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
    """Memory of an ordinary job in bytes, by part."""

    network_memory: int
    """All network memory, because it is allocated at the start."""
    connections: int
    """Receive buffers and objects."""
    channels: int
    """Objects of channels and subpartitions."""
    subtasks: int
    """Gates, partitions, readers and writers, and one buffer's records for each reader."""

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(self)


def expected_memory(config: NetworkConfig, shape: ExchangeShape) -> ExpectedMemory:
    """Compute the expected memory of a worker with this configuration and exchange."""
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
    """Maximum memory in bytes, by part."""

    network_memory: int
    """All network buffers, in use or not."""
    sockets: int
    """Memory that an event loop still refers to after the sent buffers got new memory, and copies
    of flushed slices on their way into the socket."""
    receive_buffers: int
    """One per connection, for bytes that are read and not decoded."""
    tls: int
    """With TLS: bytes read and not decrypted, bytes written and not sent, and the state of
    handshakes."""
    control_messages: int
    """Control messages that peers have not read."""
    requests: int
    """Readers that peers have opened, for existing partitions or not."""
    handshakes: int
    """Peers that have not identified themselves, and as many that were turned away."""
    events: int
    """Events that their consumers have not taken, on both sides."""
    reassembly: int
    """Partly received records that are not on disk."""
    records_read: int
    """One record of the largest size per reader, and the bytes of one record for all readers,
    because decoding is done in one step. A previous record belongs to the function that keeps
    it."""
    records_reused: int
    """Unused record objects of the process, kept for reuse by the next records."""
    records_written: int
    """Records of the largest size being serialised, one per partition."""
    remembered_keys: int
    """Keys with a remembered channel, for every writer of a keyed exchange."""
    objects: int
    """Python objects of connections, channels, subpartitions and segments, and records of released
    partitions."""

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(self)


def memory_bound(config: NetworkConfig, shape: ExchangeShape, *, tls: bool = False) -> MemoryBound:
    """Compute the bound of a worker with this configuration and exchange."""
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
    """Count output three times: in one piece, encrypted, and encrypted in the socket's queue."""
    each = _TLS_READ_COPIES * _TLS_READ_BYTES + _TLS_WRITE_COPIES * config.outbox_bytes_max
    strangers = 2 * config.wire.pending_handshakes_max
    return connections * each + (connections + strangers) * _TLS_OBJECTS_BYTES


def _control_messages(wire: WireLimits, connections: int) -> int:
    joined = wire.control_bytes_max if connections else 0
    copied = wire.control_bytes_max // 8
    return connections * (_CONTROL_COPIES * wire.control_bytes_max + copied) + joined


def _requests(wire: WireLimits, connections: int) -> int:
    """Count readers up to the worker's limit, and refused channels per connection."""
    channels = connections * wire.channels_per_connection_max
    readers = min(channels, wire.channels_per_worker_max)
    return readers * _READER_OBJECTS_BYTES + channels * _REFUSED_CHANNEL_BYTES


def _reassembly(config: NetworkConfig) -> int:
    """Add an eighth for Python's over-allocation, and one record on its way to disk."""
    return config.reassembly_memory_bytes * 9 // 8 + config.record_spill_bytes


def _records_read(config: NetworkConfig, readers: int) -> int:
    """Return the bytes of one record (mapped, if they are on disk) and of all records' objects.

    A record that spans buffers comes with the records behind it in its last buffer.
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

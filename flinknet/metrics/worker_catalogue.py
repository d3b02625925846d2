"""The metrics of a worker's process, network and topics: Flink's, and flinknet's own.

flinknet's own names follow Prometheus' conventions (``_total``, ``_bytes``, ``_seconds``). Flink's
names for a process contain "JVM". They are used here with the same meaning, so that dashboards made
for Flink work. Flink's heap metrics are left out, because Python has no heap of that kind;
``process_resident_memory_bytes`` is the memory of the process. Flink's collectors are the JVM's,
such as ``G1_Young_Generation``, and ``All`` for their sum. Python's collectors are its generations,
``generation0`` to ``generation2``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.environment_statistics import (
    PeerDirectoryStatistics,
    ProtocolViolations,
    RefusedPeers,
    TopicStatistics,
)
from flinknet.metrics.garbage_totals import CollectorTotals, GarbageTotals, GenerationTotals
from flinknet.metrics.process_totals import ProcessTotals
from flinknet.metrics.registry import Adding, Catalogue, Family, Kind, Labels, Metric, Unit
from flinknet.metrics.task_catalogue import WORKER_LABELS
from flinknet.metrics.worker_statistics import WorkerStatistics
from flinknet.records.serialization.spanning_record import ReassemblyStatistics

__all__ = [
    "ALL_COLLECTORS",
    "COLLECTOR",
    "CONNECTION",
    "COORDINATOR_PROCESS_SCOPE",
    "EVENT_LOOP",
    "GENERATION",
    "NETWORK",
    "PROCESS",
    "REFUSED",
    "TOPIC",
    "VIOLATIONS",
    "garbage_families",
    "network_families",
    "topic_families",
    "worker_labels",
]

MAX, MEAN = Adding.MAX, Adding.MEAN
COUNTER = Kind.COUNTER


class Network(Protocol):
    """The part of the statistics that workers and environments share."""

    @property
    def network_pool(self) -> NetworkBufferPoolStatistics: ...
    @property
    def peers(self) -> PeerDirectoryStatistics: ...
    @property
    def reassembly(self) -> ReassemblyStatistics: ...


def _milliseconds(one: CollectorTotals) -> float:
    return 1000 * one.seconds


# fmt: off
PROCESS: Catalogue[ProcessTotals] = Catalogue(
    "Processes",
    (
        Metric("CPU.Load", Unit.SHARE, "load", "Share of the machine's CPU time that the process used in the last minute", adds=MEAN),
        Metric("CPU.Time", Unit.NANOSECONDS, "computed_ns", "CPU time that the process has used", COUNTER),
        Metric("Threads.Count", Unit.NUMBER, "threads", "Live threads"),
    ),
    scope="taskmanager_Status_JVM",
    labels=WORKER_LABELS,
)
"""Metrics of a worker's process; the coordinator's have a scope of their own."""

COORDINATOR_PROCESS_SCOPE = "jobmanager_Status_JVM"

COLLECTOR: Catalogue[CollectorTotals] = Catalogue(
    "Garbage collectors",
    (
        Metric("Count", Unit.NUMBER, "collections", "Garbage collections", COUNTER),
        Metric("Time", Unit.MILLISECONDS, _milliseconds, "Time of garbage collections, during which all threads of the worker stop", COUNTER),
    ),
    scope="taskmanager_Status_JVM_GarbageCollector_COLLECTOR",
    labels=WORKER_LABELS,
)
"""Metrics of one generation or of all; the name of the collector is part of the scope."""

ALL_COLLECTORS: Catalogue[GarbageTotals] = Catalogue(
    "All garbage collectors together",
    (
        Metric("TimeMsPerSecond", Unit.MS_PER_SECOND, lambda one: 1000 * one.seconds_per_second, "Time of garbage collections, per second of the last minute"),
    ),
    scope="taskmanager_Status_JVM_GarbageCollector_All",
    labels=WORKER_LABELS,
)

GENERATION: Catalogue[GenerationTotals] = Catalogue(
    "Generations of garbage",
    (
        Metric("flinknet_gc_collections_total", Unit.NUMBER, "collections", "Garbage collections, during which all threads of the worker stop", COUNTER),
        Metric("flinknet_gc_seconds_total", Unit.SECONDS, "seconds", "Time of garbage collections", COUNTER),
        Metric("flinknet_gc_freed_objects_total", Unit.NUMBER, "objects", "Objects freed by garbage collections", COUNTER),
    ),
    labels=(*WORKER_LABELS, "generation"),
)

NETWORK: Catalogue[Network] = Catalogue(
    "Network memory and peers of a worker",
    (
        Metric("TotalMemorySegments", Unit.BUFFERS, "network_pool.total", "Segments of the network memory"),
        Metric("AvailableMemorySegments", Unit.BUFFERS, "network_pool.free", "Free segments of the network memory"),
        Metric("UsedMemorySegments", Unit.BUFFERS, "network_pool.used", "Segments of the network memory in use"),
        Metric("TotalMemory", Unit.BYTES, "network_pool.total_memory_bytes", "Network memory"),
        Metric("AvailableMemory", Unit.BYTES, "network_pool.available_memory_bytes", "Free network memory"),
        Metric("UsedMemory", Unit.BYTES, "network_pool.used_memory_bytes", "Network memory in use"),
        Metric("RequestedMemoryUsage", Unit.PERCENT, "network_pool.requested_memory_usage_percent", "Network memory that all pools would use if they could; may exceed 100", adds=MEAN),
        Metric("flinknet_reassembly_records", Unit.RECORDS, "reassembly.records", "Records that are being reassembled from several buffers"),
        Metric("flinknet_reassembly_memory_bytes", Unit.BYTES, "reassembly.memory_bytes", "Memory of records that are being reassembled"),
        Metric("flinknet_reassembly_disk_bytes", Unit.BYTES, "reassembly.spilled_bytes", "Disk space of records that are being reassembled"),
        Metric("flinknet_reassembly_spilled_records_total", Unit.RECORDS, "reassembly.records_spilled_before", "Records that were spilled to disk during reassembly", COUNTER),
        Metric("flinknet_connections", Unit.NUMBER, "peers.established", "Connections to other workers"),
        Metric("flinknet_connections_pending", Unit.NUMBER, "peers.pending", "Sockets whose handshake is not complete"),
        Metric("flinknet_connections_accepted_total", Unit.NUMBER, "peers.accepted_total", "Sockets accepted", COUNTER),
        Metric("flinknet_connections_dialled_total", Unit.NUMBER, "peers.dialled_total", "Sockets connected to other workers", COUNTER),
        Metric("flinknet_connections_lost_total", Unit.NUMBER, "peers.lost_total", "Connections that broke before they were closed", COUNTER),
    ),
    scope="taskmanager_Status_Shuffle_Netty",
    labels=WORKER_LABELS,
)

REFUSED: Catalogue[RefusedPeers] = Catalogue(
    "Peers that a worker has refused",
    (
        Metric("flinknet_peers_refused_total", Unit.NUMBER, "sockets", "Sockets of refused peers, by the reason sent to them", COUNTER),
    ),
    labels=(*WORKER_LABELS, "reason"),
)

VIOLATIONS: Catalogue[ProtocolViolations] = Catalogue(
    "Peers that have broken the protocol",
    (
        Metric("flinknet_protocol_violations_total", Unit.NUMBER, "connections", "Connections that ended because the peer broke the protocol, by kind of violation: message, sequence, checksum, credit, requests, cancels, heartbeats, unread, or told if the peer reported a violation by this side", COUNTER),
    ),
    labels=(*WORKER_LABELS, "kind"),
)

EVENT_LOOP: Catalogue[WorkerStatistics] = Catalogue(
    "Event loop of a worker",
    (
        Metric("flinknet_event_loop_lag_seconds", Unit.SECONDS, lambda worker: worker.event_loop_lag_ms / 1000, "Maximum delay of a timer in the last five to ten seconds", adds=MAX),
    ),
    labels=WORKER_LABELS,
)

CONNECTION: Catalogue[ConnectionTotals] = Catalogue(
    "Connections to other workers",
    (
        Metric("flinknet_connection_channels", Unit.NUMBER, "connection.channels", "Channels that receive over a connection"),
        Metric("flinknet_connection_readers", Unit.NUMBER, "readers", "Subpartitions that send over a connection"),
        Metric("flinknet_connection_credit", Unit.BUFFERS, "credit", "Free buffers of the peer for data sent to it"),
        Metric("flinknet_connection_backlog", Unit.BUFFERS, "backlog", "Buffers that wait to be sent over a connection"),
        Metric("flinknet_connection_sent_bytes_total", Unit.BYTES, "connection.bytes_out", "Bytes handed to the socket", COUNTER),
        Metric("flinknet_connection_received_bytes_total", Unit.BYTES, "connection.bytes_in", "Bytes read from the socket", COUNTER),
        Metric("flinknet_connection_sent_buffers_total", Unit.BUFFERS, "connection.buffers_out", "Buffers sent", COUNTER),
        Metric("flinknet_connection_received_buffers_total", Unit.BUFFERS, "connection.buffers_in", "Buffers received", COUNTER),
        Metric("flinknet_connection_dropped_buffers_total", Unit.BUFFERS, "connection.buffers_dropped", "Buffers received for cancelled channels", COUNTER),
        Metric("flinknet_connection_sent_credit_messages_total", Unit.NUMBER, "connection.credit_messages_out", "Messages that announced credit", COUNTER),
        Metric("flinknet_connection_queued_control_bytes", Unit.BYTES, "connection.control_bytes_queued", "Control messages that the socket has not accepted yet"),
        Metric("flinknet_connection_stalled", Unit.YES_NO, "connection.stalled", "1 while reading is paused, because flow control is off and no buffer is free", adds=MAX),
    ),
    labels=(*WORKER_LABELS, "peer"),
)

TOPIC: Catalogue[TopicStatistics] = Catalogue(
    "Topics",
    (
        Metric("flinknet_topic_readers", Unit.NUMBER, "readers", "Readers of a topic"),
        Metric("flinknet_topic_queued_records", Unit.RECORDS, "records_queued", "Records queued for the readers of a topic, counted for each reader"),
        Metric("flinknet_topic_readers_joined_total", Unit.NUMBER, "joined_total", "Readers that joined a topic", COUNTER),
        Metric("flinknet_topic_readers_left_total", Unit.NUMBER, "left_total", "Readers that left a topic", COUNTER),
        Metric("flinknet_topic_readers_disconnected_total", Unit.NUMBER, "disconnected_total", "Readers of a topic that were disconnected because they did not keep up", COUNTER),
        Metric("flinknet_topic_dropped_records_total", Unit.RECORDS, "records_dropped_total", "Records lost by readers of a topic that did not keep up, counted for each reader", COUNTER),
    ),
    labels=(*WORKER_LABELS, "topic"),
)
# fmt: on


def network_families(
    labels: Labels, network: Network, connections: Sequence[ConnectionTotals]
) -> Iterator[Family]:
    """Make the families of one worker's memory, peers and connections."""
    yield from NETWORK.families([(labels, network)])
    refused = [({**labels, "reason": one.reason}, one) for one in network.peers.refused]
    yield from REFUSED.families(refused, even_empty=True)
    violations = [({**labels, "kind": one.kind}, one) for one in network.peers.violations]
    yield from VIOLATIONS.families(violations, even_empty=True)
    by_peer = [({**labels, "peer": one.connection.peer}, one) for one in connections]
    yield from CONNECTION.families(by_peer)


def garbage_families(labels: Labels, garbage: GarbageTotals) -> Iterator[Family]:
    """Make the families of one worker's garbage collector."""
    for name, collector in garbage.collectors().items():
        yield from COLLECTOR.families(
            [(labels, collector)], scope=COLLECTOR.scope.replace("COLLECTOR", name)
        )
    yield from ALL_COLLECTORS.families([(labels, garbage)])
    yield from GENERATION.families(
        [({**labels, "generation": str(one.generation)}, one) for one in garbage.generations]
    )


def topic_families(labels: Labels, topics: Sequence[TopicStatistics]) -> Iterator[Family]:
    """Make the families of one worker's topics, by name."""
    yield from TOPIC.families([({**labels, "topic": topic.name}, topic) for topic in topics])


def worker_labels(worker_id: str, address: str) -> Labels:
    """Return the labels of a worker, as in Flink's reporter.

    ``address`` is the address of its data plane.
    """
    return {"host": address.rpartition(":")[0].strip("[]"), "tm_id": worker_id}

"""Limits and defaults of the exchange: network memory, credit, timeouts, peers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from flinknet.config.checks import (
    KIB,
    MIB,
    check_fields,
    require,
    require_at_least,
    require_positive,
)

__all__ = [
    "ADAPTIVE",
    "RECORD_KEYS_MAX",
    "REMEMBERED_KEYS_BYTES",
    "REUSED_RECORDS_BYTES",
    "BufferDebloatConfig",
    "BufferTimeout",
    "Checksums",
    "FlowControl",
    "NetworkConfig",
    "WireLimits",
    "check_buffer_timeout",
]

RECORD_KEYS_MAX = 4_096

REMEMBERED_KEYS_BYTES = 16 * MIB
"""Memory for about 100,000 short keys."""

REUSED_RECORDS_BYTES = 512 * KIB
"""Maximum serialised size of dead records kept for reuse, where this is compiled.

The memory of these records is filled by the next ones. The size is two buffers for each of eight
kinds of record. The records belong to the process, which may have several environments, and count
towards the limit of each environment that reads.
"""

ADAPTIVE: Literal["adaptive"] = "adaptive"
BufferTimeout = float | Literal["adaptive"]
"""Milliseconds, with -1 for "only full buffers" and 0 for "every record"; or ``"adaptive"``."""


FlowControl = Literal["credit", "off"]
"""The mode of flow control: see ``NetworkConfig.flow_control``."""

Checksums = Literal["auto", "on", "off"]
"""Whether messages carry checksums: see ``NetworkConfig.checksums``."""

_HANDSHAKE_BYTES_LEAST = 512
"""Minimum size of a handshake message.

A valid answer with the longest names and the longest reason has 507 bytes.
"""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits on memory and work that a peer can cause; all are enforced before any allocation."""

    handshake_bytes_max: int = 512
    """Maximum memory for a peer before its handshake is complete, beside its socket."""

    error_text_bytes_max: int = 1024
    """Maximum text of an error; it crosses the network as a code and text, never as a payload."""

    channels_per_connection_max: int = 65_536
    """Maximum number of readers that one peer may have open.

    A cancelled reader counts until it is completely removed.
    """

    channels_per_worker_max: int = 131_072
    """Maximum number of readers that all peers of a worker may have open.

    Each costs memory before any data is sent on it. A request beyond the limit fails its channel.
    The limit is twice the limit of one peer, so that no single peer can use it up.
    """

    unused_requests_per_minute_max: int = 131_072
    """Maximum number of requests per minute that a peer may cancel unused.

    A request is unused if no data was sent on its channel. A peer that cancels more loses its
    connection. A failing job cancels every channel at once, and two failing jobs in a minute cancel
    twice as many.
    """

    unmet_requests_per_second_max: int = 5_000
    """Maximum number of requests per second for partitions that a worker does not have.

    The limit applies to all peers together, and half as many may arrive at once. Further requests
    are read later, in turn with requests of other peers. Each takes about 15 us with its
    cancellation, so peers that send nothing else use less than a tenth of a processor.
    """

    heartbeats_per_minute_max: int = 1_200
    """Maximum number of heartbeats per minute from a peer; more close the connection.

    Heartbeats may arrive all at once after this process was blocked, so the limit is twice the
    number for an interval of 100 ms. They take less time than the handshake of a peer that
    reconnects.
    """

    credit_per_channel_max: int = 65_535
    """Maximum number of free buffers that a peer may claim for one channel.

    A larger sum is a protocol error.
    """

    event_bytes_max: int = KIB
    """Maximum payload of one event.

    An event costs the producer no credit, so no pool accounts for its memory.
    """

    events_per_channel_max: int = 1_000
    """Maximum number of events of one channel that its consumer has not taken yet.

    This is the event credit of the channel, and as many may wait at its producer, where the writer
    then waits. A peer that sends more violates the protocol. Both peers must have the same value.
    """

    control_bytes_max: int = 16 * MIB
    """Maximum size of control messages queued for a peer that does not read.

    Each message counts with its overhead. A larger queue closes the connection.
    """

    handshake_timeout_ms: float = 5_000.0
    """Time for a connection to identify itself before it is closed, against slow-loris attacks.

    A fifth of it counts as the longest round trip between two workers.
    """

    pending_handshakes_max: int = 256
    """Maximum number of connections that have not identified themselves.

    For a further connection, the oldest silent one is rejected: it is told FULL, and given the same
    time to close. The limit exceeds the number of workers of a large job, which all dial at once.
    """

    tls_handshakes_per_second_max: int = 200
    """Maximum number of TLS handshakes per second from peers of this worker.

    The same limit holds for tasks of Spark that connect to the program. Half as many may start at
    once. Further ones wait within handshake_timeout_ms, and hosts take turns. A handshake costs
    about a millisecond, but a stranger can replay a recorded one for free, so strangers can use a
    fifth of a processor. If 1,000 workers connect at once, the last waits for 2 s.
    """

    accepted_connections_max: int = 1_024
    """Maximum number of connections that peers have made to a worker, in handshake or in use.

    A further connection is refused with the reason. Each costs a socket and a receive buffer. A
    peer needs only one, so a cluster can have as many workers.
    """

    farewell_bytes_max: int = 16 * MIB
    """Maximum number of bytes read and discarded from a peer that was refused.

    The same applies to a peer that violated the protocol. The peer can thus read the reason, which
    a reset would destroy. It is more than the sockets of both sides hold; close_timeout_ms bounds
    the time.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            _HANDSHAKE_BYTES_LEAST <= self.handshake_bytes_max <= 65_536,
            f"handshake_bytes_max is {self.handshake_bytes_max}: choose {_HANDSHAKE_BYTES_LEAST} "
            "(the longest message of the handshake) to 65536",
        )
        for name in ("error_text_bytes_max", "event_bytes_max"):
            value = getattr(self, name)
            require(16 <= value <= 2 * KIB, f"{name} is {value}: choose 16 to 2048 bytes")
        require_at_least(
            self,
            1,
            "channels_per_connection_max",
            "channels_per_worker_max",
            "unmet_requests_per_second_max",
            "heartbeats_per_minute_max",
            "credit_per_channel_max",
            "events_per_channel_max",
            "pending_handshakes_max",
            "tls_handshakes_per_second_max",
            "accepted_connections_max",
            "farewell_bytes_max",
        )
        require(
            self.unused_requests_per_minute_max >= self.channels_per_connection_max,
            f"unused_requests_per_minute_max is {self.unused_requests_per_minute_max}, less than "
            f"channels_per_connection_max ({self.channels_per_connection_max}), all of which a "
            "failing job cancels at once: raise the former or lower the latter",
        )
        require(
            self.control_bytes_max >= 4 * KIB,
            f"control_bytes_max is {self.control_bytes_max}: choose 4 KiB or more",
        )
        require_positive(self, "handshake_timeout_ms")


@dataclass(frozen=True, slots=True)
class BufferDebloatConfig:
    """Buffer debloating: adaptation of buffer sizes to a target for consuming buffered data.

    A gate tells its producers how far to fill buffers. Flink:
    taskmanager.network.memory.buffer-debloat.*.
    """

    enabled: bool = False
    """Off by default, as in Flink: smaller buffers cost throughput while a consumer is slow."""

    period_ms: float = 200.0
    """Interval between two calculations of the size. Flink: buffer-debloat.period (200 ms)."""

    samples: int = 20
    """Number of calculations over which the size is smoothed.

    Each has a weight of 2 / (samples + 1). Flink: buffer-debloat.samples (20).
    """

    target_ms: float = 1_000.0
    """Target time for consuming all data on its way to a gate.

    Flink: buffer-debloat.target (1 s).
    """

    threshold_percent: float = 25.0
    """Minimum change of the size that is sent to producers.

    Flink: buffer-debloat.threshold-percentages (25).
    """

    segment_bytes_min: int = 256
    """Minimum size; below it, headers would be larger than their data.

    Flink: taskmanager.memory.min-segment-size (256 B).
    """

    def __post_init__(self) -> None:
        check_fields(self)
        require_positive(self, "period_ms", "target_ms")
        require_at_least(self, 1, "samples", "segment_bytes_min")
        require(
            0 <= self.threshold_percent < 100,
            f"threshold_percent is {self.threshold_percent}: choose 0 to less than 100",
        )


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Settings of the exchange: memory, flow control, flushing, connections."""

    segment_bytes: int = 32 * KIB + 256
    """Size of a network buffer.

    A record of 32 KiB fits, with its headers. For larger records, choose a few times their size.
    Flink: taskmanager.memory.segment-size (32kb).
    """

    network_memory_bytes: int = 64 * MIB
    """Memory of all network buffers of a worker, allocated at start.

    Flink: taskmanager.memory.network.min (64mb).
    """

    flow_control: FlowControl = "credit"
    """The mode of flow control.

    With "credit", a producer sends only as much as its consumer has buffers for. With "off", it
    sends all its data, and a consumer without buffers stops reading the whole connection, as Flink
    did before 1.5. This mode exists only to measure the value of credit. Flink:
    taskmanager.network.credit-model.
    """

    checksums: Checksums = "auto"
    """Whether this side requests a CRC32C after every message; a request by one side is enough.

    Data that was changed on its way is then an error instead of a different record. "auto" requests
    checksums beyond loopback. On loopback only memory lies between two processes, and checksums are
    too expensive to be on by default. Payloads of 1 to 32 KiB cost both ends together 14 to 18 %
    more processor time, small tuples at most a few percent.
    """

    buffers_per_channel: int = 2
    """Number of exclusive buffers, and thus initial credit, of a remote channel.

    While the consumer reads from one buffer, another one is filled on the way. Flink:
    taskmanager.network.memory.buffers-per-channel (2).
    """

    floating_buffers_per_gate: int = 8
    """Number of buffers that the channels of a gate share by backlog.

    buffers_per_subpartition_max bounds the backlog. On a link with latency, more floating buffers
    than half of this limit therefore help no channel. Flink:
    taskmanager.network.memory.floating-buffers-per-gate (8).
    """

    buffers_per_subpartition_max: int = 10
    """Soft limit of a subpartition's buffers in its partition's pool.

    It keeps one slow consumer from taking the whole pool. Flink:
    taskmanager.network.memory.max-buffers-per-channel (10).
    """

    large_record_buffers_max: int = 32
    """The same limit as buffers_per_subpartition_max while records are large; 0 for no difference.

    Records are large while buffers of a partition hold 64 records or fewer, or parts of one. The
    partition and its gates may then also use more buffers, by the difference between the two
    limits. Passing on such a buffer takes as long as filling or reading it, so both ends wait for
    each other sooner. With 32 instead of 10, records of 1 KiB move 1.3 to 1.5 times as fast, and
    records of 32 KiB 1.2 to 1.3 times. More than 32 gains nothing.
    """

    overdraft_buffers_per_partition: int = 5
    """Number of buffers beyond the pool's size for a record in progress.

    The record then never blocks half-way while the worker has memory. Flink:
    taskmanager.network.memory.max-overdraft-buffers-per-gate (5).
    """

    required_buffers_per_gate_max: int = 0
    """Maximum number of buffers that a gate reserves; 0 for no limit.

    Beyond it, exclusive buffers become floating ones, which the gate gets when the worker has some.
    Flink: taskmanager.network.memory.read-buffer.required-per-gate.max (unset).
    """

    buffers_request_timeout_ms: float = 30_000.0
    """Time for which a gate waits for its exclusive buffers while other pools hold them.

    Flink: taskmanager.network.memory.buffers-request-timeout (30 s).
    """

    buffer_timeout_ms: BufferTimeout = ADAPTIVE
    """Maximum time that a record waits in a partly filled buffer.

    -1 waits until the buffer is full, 0 does not wait; otherwise a duration, or "adaptive". Flink:
    execution.buffer-timeout.interval (100 ms).
    """

    adaptive_flush_ms_max: float = 10.0
    """With "adaptive": longest wait of a record in a busy writer's partly filled buffer."""

    adaptive_flush_us_per_channel: float = 100.0
    """With "adaptive": the same time for a writer to many channels, for each channel.

    The longer of the two times applies. A partly filled buffer costs both workers about 30 us, so
    this limits the cost of flushing a busy writer to a third of the time.
    """

    busy_poll_us: float = 0.0
    """Time for which the event loop polls its sockets after traffic, instead of sleeping.

    0 means none. A record then meets a worker that is awake, at the cost of up to this much
    processor time after each transfer. Linux: net.core.busy_poll (0).
    """

    record_bytes_max: int = 64 * MIB
    """Maximum size of a serialised record, wherever it is reassembled."""

    record_elements_max: int = 1_048_576
    """Maximum number of elements in all arrays and maps of a record together.

    An empty map is one byte in a buffer and sixty in memory. The limit is at least segment_bytes: a
    record of n elements has n bytes or more, and records that fit a buffer are not counted.
    """

    record_keys_max: int = RECORD_KEYS_MAX
    """Maximum number of keys, in all maps and sets of a record, that are neither text nor bytes.

    The limit applies to records of more than 33,024 bytes; up to 64 keys in one map or set do not
    count. Python hashes such keys without a salt, so a peer can choose n keys that take n*n/2
    comparisons: 0.2 s at this limit. If all peers are trusted, it may be as high as
    record_elements_max.
    """

    record_spill_bytes: int = 5 * MIB
    """Size from which a reader reassembles a record that spans buffers on disk.

    Flink: the threshold of SpillingAdaptiveSpanningRecordDeserializer (5 MiB).
    """

    reassembly_memory_bytes: int = 64 * MIB
    """Maximum memory of all records under reassembly in a worker.

    A record goes to disk, however short it is, if its next piece would exceed the limit. Otherwise
    each of a worker's thousands of channels could hold record_spill_bytes. Large bytes objects and
    Arrow batches count with their full size from the first piece on, if there is space for it.
    """

    spill_directory: str = ""
    """Directory for the reassembly of long records; empty for the system's temporary directory.

    The only bound on their size there is record_bytes_max for each channel of the worker. Flink:
    io.tmp.dirs.
    """

    remembered_keys_bytes: int = REMEMBERED_KEYS_BYTES
    """Memory for the keys that the writer of a keyed exchange remembers with their channels.

    When it is full, the writer starts again with none. A longer key is hashed each time; with 0,
    all keys are.
    """

    outbox_bytes_max: int = 512 * KIB
    """Maximum number of bytes passed to a connection's socket and not yet written by it.

    More gains nothing on loopback, and delays events, which queue behind this data.
    """

    receive_buffer_bytes: int = 256 * KIB
    """Maximum number of bytes per socket read."""

    turn_messages_max: int = 250
    """Maximum number of messages of one connection handled in one iteration of the event loop.

    The rest waits for the next iteration, and the socket is not read meanwhile. A message takes
    some microseconds. A peer that keeps sending tiny messages thus delays others by about a
    millisecond. A pause takes as long as two messages.
    """

    turn_bytes_max: int = 1 * MIB
    """Maximum number of bytes of one connection read in one iteration of the event loop.

    The read that reaches the limit is completed. uvloop alone would continue as long as a peer
    sends.
    """

    rendezvous_timeout_ms: float = 60_000.0
    """Time for which the two ends of a channel wait for each other, in any order of start.

    A consumer waits for a listener at the address, then for the partition to be registered there. A
    writer that is blocked, or finishing, waits for a reader that never connected. 0 waits forever.
    A minute is longer than it takes to start two programs by hand, one after the other. Flink:
    taskmanager.network.partition-request-timeout (10 s), for the registration.
    """

    rendezvous_notice_ms: float = 5_000.0
    """Time after which such a wait is logged, once, with both ends; 0 for never."""

    ended_partitions_remembered_max: int = 10_000
    """Maximum number of ended partitions that a worker remembers.

    A late reader thus gets the reason at once. A long-lived worker must not grow with every job.
    """

    ended_partitions_remembered_ms: float = 600_000.0
    """Time for which a worker remembers an ended partition.

    A directory of names keeps the error of a writer that failed before its reader connected for the
    same time. It is longer than the time between the starts of two programs, and shorter than the
    time until a name is reused.
    """

    connect_timeout_ms: float = 10_000.0
    """Time for one connect and handshake.

    Flink: taskmanager.network.netty.client.connectTimeoutSec.
    """

    connect_backoff_ms: float = 100.0
    """Maximum wait before the second attempt to connect; it doubles for each further attempt.

    A random part of up to half is subtracted. Attempts end with rendezvous_timeout_ms. Flink:
    taskmanager.network.request-backoff.initial (100).
    """

    connect_backoff_max_ms: float = 2_000.0
    """Maximum wait between two attempts to connect.

    A consumer may start this much later than its producer, and polling costs only a few packets a
    second. Flink: taskmanager.network.request-backoff.max (10000).
    """

    heartbeat_interval_ms: float = 10_000.0
    """Interval of heartbeats on a connection without other data.

    They are sent ahead of any data. Flink: heartbeat.interval (10 s).
    """

    heartbeat_timeout_ms: float = 60_000.0
    """Time without progress after which a peer is given up and its connection lost.

    The peer has sent nothing, or has taken none of the data for it. The time is longer than any
    user function may block the peer's event loop. With 0, a silent peer is never given up, and a
    writer never gives up a consumer that has not connected; another component must find hanging
    processes. The workers of a cluster always use 0. Flink: heartbeat.timeout (50 s).
    """

    unreachable_timeout_ms: float = 30_000.0
    """Time without TCP acknowledgements after which a peer is given up, while data is due.

    Its machine is gone, or the network is cut. This is checked once per heartbeat_interval_ms. A
    blocked or stopped process does not keep its machine from acknowledging. With 0, a peer is given
    up only when TCP gives up, after about 15 minutes. Works only on Linux.
    """

    close_timeout_ms: float = 2_000.0
    """Time for the peers of a closing worker to take the data already written.

    A peer that violated the protocol has the same time to read the reason before it is
    disconnected.
    """

    debloat: BufferDebloatConfig = field(default_factory=BufferDebloatConfig)

    wire: WireLimits = field(default_factory=WireLimits)

    def __post_init__(self) -> None:
        check_fields(self)
        self._check_memory()
        self._check_flow_control()
        self._check_records()
        self._check_connections()

    def _check_memory(self) -> None:
        require(
            64 <= self.segment_bytes <= 16 * MIB,
            f"segment_bytes is {self.segment_bytes}: choose 64 bytes to 16 MiB",
        )
        require(
            not self.debloat.enabled or self.debloat.segment_bytes_min <= self.segment_bytes,
            f"debloat.segment_bytes_min is {self.debloat.segment_bytes_min}, more than "
            f"segment_bytes ({self.segment_bytes}): lower the former or raise the latter",
        )
        require(
            self.network_memory_bytes >= self.segment_bytes,
            f"network_memory_bytes is {self.network_memory_bytes}, less than one buffer of "
            f"{self.segment_bytes} bytes: raise network_memory_bytes or lower segment_bytes",
        )
        require_at_least(
            self, 0, "overdraft_buffers_per_partition", "required_buffers_per_gate_max"
        )
        require(
            self.buffers_per_subpartition_max >= 2,
            f"buffers_per_subpartition_max is {self.buffers_per_subpartition_max}: choose 2 or "
            "more, because one is filled while the other is sent",
        )
        require_at_least(self, 0, "large_record_buffers_max")
        require_positive(self, "buffers_request_timeout_ms")

    def _check_flow_control(self) -> None:
        exclusive, floating = self.buffers_per_channel, self.floating_buffers_per_gate
        extra = self.large_record_extra_buffers
        require_at_least(self, 0, "buffers_per_channel", "floating_buffers_per_gate")
        require(
            exclusive + floating >= 1,
            "buffers_per_channel and floating_buffers_per_gate are both 0: a channel could never "
            "receive anything, raise one of them",
        )
        require(
            exclusive + floating + extra <= self.wire.credit_per_channel_max,
            f"a channel could claim {exclusive} + {floating} + {extra} buffers, but "
            f"wire.credit_per_channel_max is {self.wire.credit_per_channel_max}: lower "
            f"buffers_per_channel, floating_buffers_per_gate or large_record_buffers_max",
        )
        require(
            self.checksums in ("auto", "on", "off"),
            f'checksums is {self.checksums!r}: choose "auto", "on" or "off"',
        )
        check_buffer_timeout(self.buffer_timeout_ms)
        require_positive(self, "adaptive_flush_ms_max", "adaptive_flush_us_per_channel")
        require(
            0 <= self.busy_poll_us <= 1_000_000,
            f"busy_poll_us is {self.busy_poll_us}: choose 0 (the event loop sleeps at once) to "
            f"1,000,000 (a second)",
        )

    def _check_records(self) -> None:
        require(
            self.segment_bytes <= self.record_bytes_max < 2**31,
            f"record_bytes_max is {self.record_bytes_max}: choose segment_bytes to 2 GiB - 1",
        )
        require(
            self.record_elements_max >= self.segment_bytes,
            f"record_elements_max is {self.record_elements_max}: choose segment_bytes "
            f"({self.segment_bytes}) or more, because records that fit a buffer are not counted",
        )
        require_at_least(self, 0, "remembered_keys_bytes", "record_keys_max")
        require(
            self.record_spill_bytes >= 100 * KIB,
            f"record_spill_bytes is {self.record_spill_bytes}: choose 100 KiB or more, because "
            "shorter records take less memory than their location on disk",
        )
        require(
            self.reassembly_memory_bytes >= self.record_spill_bytes,
            f"reassembly_memory_bytes is {self.reassembly_memory_bytes}: it must hold one record "
            f"of record_spill_bytes ({self.record_spill_bytes})",
        )

    def _check_connections(self) -> None:
        require_at_least(self, 0, "rendezvous_timeout_ms", "rendezvous_notice_ms")
        require_positive(
            self,
            "connect_timeout_ms",
            "connect_backoff_ms",
            "close_timeout_ms",
            "heartbeat_interval_ms",
            "ended_partitions_remembered_ms",
        )
        require_at_least(self, 0, "ended_partitions_remembered_max")
        require(
            self.connect_backoff_max_ms >= self.connect_backoff_ms,
            f"connect_backoff_max_ms is {self.connect_backoff_max_ms}: choose connect_backoff_ms "
            f"({self.connect_backoff_ms}) or more",
        )
        require(
            self.heartbeat_timeout_ms == 0
            or self.heartbeat_timeout_ms >= 2 * self.heartbeat_interval_ms,
            f"heartbeat_timeout_ms is {self.heartbeat_timeout_ms}: choose 0 (never give up) or at "
            f"least twice heartbeat_interval_ms ({self.heartbeat_interval_ms})",
        )
        # The heartbeats of one minute may arrive in the next, together with its own.
        heartbeats = math.ceil(2 * 60_000 / self.heartbeat_interval_ms)
        require(
            self.wire.heartbeats_per_minute_max >= heartbeats,
            f"wire.heartbeats_per_minute_max is {self.wire.heartbeats_per_minute_max}: with a "
            f"heartbeat_interval_ms of {self.heartbeat_interval_ms} choose {heartbeats} or more",
        )
        require(
            self.outbox_bytes_max >= self.segment_bytes,
            f"outbox_bytes_max is {self.outbox_bytes_max}: it must hold one buffer of "
            f"{self.segment_bytes} bytes",
        )
        require_at_least(self, 0, "unreachable_timeout_ms")
        require_at_least(self, 1, "turn_messages_max")
        require_at_least(self, 4 * KIB, "turn_bytes_max")
        require(
            4 * KIB <= self.receive_buffer_bytes <= 64 * MIB,
            f"receive_buffer_bytes is {self.receive_buffer_bytes}: choose 4 KiB to 64 MiB, which "
            "each connection allocates",
        )

    @property
    def large_record_extra_buffers(self) -> int:
        """Number of additional buffers for a partition or a gate while records are large.

        It is 0 without credit, because a gate then cannot announce additional buffers.
        """
        if self.flow_control == "off":
            return 0
        return max(0, self.large_record_buffers_max - self.buffers_per_subpartition_max)

    @property
    def segments(self) -> int:
        """Number of whole network buffers in the network memory."""
        return self.network_memory_bytes // self.segment_bytes


def check_buffer_timeout(buffer_timeout_ms: BufferTimeout) -> None:
    """Raise ConfigurationError unless the value is -1, 0, a positive number or "adaptive"."""
    if buffer_timeout_ms == ADAPTIVE:
        return
    valid = (
        isinstance(buffer_timeout_ms, int | float)
        and not isinstance(buffer_timeout_ms, bool)
        and (buffer_timeout_ms == -1 or 0 <= buffer_timeout_ms < float("inf"))
    )
    require(
        valid,
        f"buffer_timeout_ms is {buffer_timeout_ms!r}: choose -1 (only full buffers), 0 (every "
        f'record), a number of milliseconds, or "adaptive"',
    )

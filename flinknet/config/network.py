"""The limits and defaults of the exchange: network memory, credit, time-outs, peers."""

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
"""Some 100,000 short keys."""

REUSED_RECORDS_BYTES = 512 * KIB
"""Serialised size of the records that nobody has any more and that the next ones are to fill, where
that is compiled: two buffers for each of eight kinds of record. They belong to the process, which
may have several environments, and are in the bound of each that reads."""

ADAPTIVE: Literal["adaptive"] = "adaptive"
BufferTimeout = float | Literal["adaptive"]
"""Milliseconds, with -1 for "only full buffers" and 0 for "every record"; or ``"adaptive"``."""


FlowControl = Literal["credit", "off"]
"""How the flow of data is controlled: see ``NetworkConfig.flow_control``."""

Checksums = Literal["auto", "on", "off"]
"""Whether messages carry checksums: see ``NetworkConfig.checksums``."""

_HANDSHAKE_BYTES_LEAST = 512
"""An answer with the longest names and the longest reason that a peer may send has 507 bytes."""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """What a peer may make this side hold or do; every one is enforced before anything is
    allocated."""

    handshake_bytes_max: int = 512
    """A peer that is not yet known costs at most this much memory beside its socket."""

    error_text_bytes_max: int = 1024
    """An error crosses the network as a code and this much text, so that it can never be a
    payload."""

    channels_per_connection_max: int = 65_536
    """Readers that one peer may open at a time; a cancelled one counts until it is really gone."""

    channels_per_worker_max: int = 131_072
    """Readers that all peers of a worker may have open at a time, because each costs memory before
    anything is sent on it; a request over it fails its channel. Twice what one peer may open, so
    that no single one takes them all."""

    unused_requests_per_minute_max: int = 131_072
    """Requests that a peer may cancel in a minute before anything was sent on their channels; more
    close the connection. A failing job cancels every channel at once, two in a minute
    twice as many."""

    unmet_requests_per_second_max: int = 5_000
    """Requests for partitions that a worker does not have, of all peers together; half as many may
    come at once. Further ones are read later, in turn with those of other peers. Each takes some 15
    us with its cancel, so peers that send nothing else take less than a tenth of a processor."""

    heartbeats_per_minute_max: int = 1_200
    """Heartbeats that a peer may send in a minute; more close the connection. They may come at
    once, as they do when this process was held up, so it is twice what an interval of 100 ms needs.
    They take less time than the handshake that a peer needs to come again."""

    credit_per_channel_max: int = 65_535
    """Buffers that a peer may claim to hold free for one channel; a larger sum is a broken
    count."""

    event_bytes_max: int = KIB
    """Payload of one event. An event costs the producer no credit, so it is held in memory that no
    pool accounts for."""

    events_per_channel_max: int = 1_000
    """Events of one channel that its consumer has not yet taken: the event credit of the channel,
    and as many may wait at its producer. A writer waits there; a peer that sends more breaks the
    protocol. Peers must have the same."""

    control_bytes_max: int = 16 * MIB
    """Control messages queued for a peer that does not read, each counted with its overhead; more
    close the connection."""

    handshake_timeout_ms: float = 5_000.0
    """A connection that has not said who it is by then is closed (slow-loris). A fifth of it counts
    as the longest round trip between two workers."""

    pending_handshakes_max: int = 256
    """Connections that have not said who they are; for a further one the oldest silent one is
    turned away (told FULL, and given as long to close). More than the workers of a large job, which
    all dial at once."""

    tls_handshakes_per_second_max: int = 200
    """Handshakes of TLS that peers may begin in a second with this worker, or tasks of Spark with
    the program; half as many may come at once. Further ones wait within handshake_timeout_ms, and
    hosts take turns. One costs about a millisecond, and a stranger nothing that says again what it
    has recorded, so strangers take a fifth of a processor. Of 1,000 workers that connect at once,
    the last waits for 2 s."""

    accepted_connections_max: int = 1_024
    """Connections that peers may have made to a worker, in handshake or in use; one more is refused
    with the reason. Each costs a socket and a receive buffer, and a peer needs only one: a cluster
    has at most as many workers."""

    farewell_bytes_max: int = 16 * MIB
    """Bytes that this side reads and discards from a peer that was refused or has broken the
    protocol, so that the peer can read the reason: a reset would cost it that. More than the
    sockets of both sides hold; close_timeout_ms bounds the time."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            _HANDSHAKE_BYTES_LEAST <= self.handshake_bytes_max <= 65_536,
            f"handshake_bytes_max is {self.handshake_bytes_max}: choose {_HANDSHAKE_BYTES_LEAST} "
            f"(what a message of the handshake may have) to 65536",
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
            f"failing job cancels at once: raise the one or lower the other",
        )
        require(
            self.control_bytes_max >= 4 * KIB,
            f"control_bytes_max is {self.control_bytes_max}: choose 4 KiB or more",
        )
        require_positive(self, "handshake_timeout_ms")


@dataclass(frozen=True, slots=True)
class BufferDebloatConfig:
    """Buffer debloating: how a gate adapts the size to which its producers fill buffers, so that
    what is on its way to it is consumed within a set time (Flink:
    taskmanager.network.memory.buffer-debloat.*)."""

    enabled: bool = False
    """Off by default, as in Flink: smaller buffers cost throughput while a consumer is slow."""

    period_ms: float = 200.0
    """Time between two calculations of the size. Flink: buffer-debloat.period (200 ms)."""

    samples: int = 20
    """Calculations over which the size is smoothed, with a weight of 2 / (samples + 1) each.
    Flink: buffer-debloat.samples (20)."""

    target_ms: float = 1_000.0
    """How long consuming everything that is on its way to a gate may take.
    Flink: buffer-debloat.target (1 s)."""

    threshold_percent: float = 25.0
    """Smallest change that producers are told of. Flink: buffer-debloat.threshold-percentages
    (25)."""

    segment_bytes_min: int = 256
    """Smallest size, below which headers cost more than they carry.
    Flink: taskmanager.memory.min-segment-size (256 B)."""

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
    """The exchange itself: memory, flow control, flushing, connections."""

    segment_bytes: int = 32 * KIB + 256
    """Size of a network buffer: a record of 32 KiB fits one, with what stands in front of its
    content. Where that is larger than this, choose a few times its size. Flink:
    taskmanager.memory.segment-size (32kb)."""

    network_memory_bytes: int = 64 * MIB
    """All network buffers of a worker, allocated at start. Flink: taskmanager.memory.network.min
    (64mb)."""

    flow_control: FlowControl = "credit"
    """"credit": a producer sends only what its consumer has a buffer for. "off": it sends what it
    has, and a consumer without buffers stops reading the whole connection, as Flink did before 1.5;
    kept only to measure what credit is worth. Flink: taskmanager.network.credit-model."""

    checksums: Checksums = "auto"
    """Whether this side asks for a CRC32C behind every message; one side that asks is enough. What
    was changed on its way is then an error instead of another record. "auto" asks beyond loopback.
    On loopback only memory lies between two processes, and checksums cost too much to be free: of
    the processor time of both ends together, payloads of 1 to 32 KiB take 14 to 18 % more, small
    tuples a few percent at most."""

    buffers_per_channel: int = 2
    """Exclusive buffers, so initial credit, of a remote channel. One is being filled on the way
    while the other is consumed. Flink: taskmanager.network.memory.buffers-per-channel (2)."""

    floating_buffers_per_gate: int = 8
    """Buffers that the channels of a gate share by backlog, so that more than half of
    buffers_per_subpartition_max, which bounds the backlog, help no channel on a link that takes
    time. Flink: taskmanager.network.memory.floating-buffers-per-gate (8)."""

    buffers_per_subpartition_max: int = 10
    """Soft quota of a subpartition in its partition's pool, so that one slow consumer cannot take
    it all. Flink: taskmanager.network.memory.max-buffers-per-channel (10)."""

    large_record_buffers_max: int = 32
    """The same quota while buffers of a partition hold 64 records or fewer, or parts of one; it and
    its gates may use as many buffers more as this is more. To hand on such a buffer takes as long
    as to fill or to read it, so both ends wait for each other sooner: records of 1 KiB move 1.3 to
    1.5 times as fast with 32 as with 10, those of 32 KiB 1.2 to 1.3 times, and more gain nothing.
    0: no difference."""

    overdraft_buffers_per_partition: int = 5
    """Buffers over the pool's size that a record in progress may take, so that it never blocks
    half-way while the worker has memory. Flink:
    taskmanager.network.memory.max-overdraft-buffers-per-gate (5)."""

    required_buffers_per_gate_max: int = 0
    """Most buffers that a gate reserves; beyond it exclusive buffers become floating ones, which
    come when the worker has them. 0 for no limit.
    Flink: taskmanager.network.memory.read-buffer.required-per-gate.max (unset)."""

    buffers_request_timeout_ms: float = 30_000.0
    """How long a gate waits for its exclusive buffers while others hold them.
    Flink: taskmanager.network.memory.buffers-request-timeout (30 s)."""

    buffer_timeout_ms: BufferTimeout = ADAPTIVE
    """How long a record may wait in a buffer that is not full: -1 until it is full, 0 not at all, a
    duration, or "adaptive". Flink: execution.buffer-timeout.interval (100 ms)."""

    adaptive_flush_ms_max: float = 10.0
    """With "adaptive": the longest that a busy writer lets a record wait in a part-filled
    buffer."""

    adaptive_flush_us_per_channel: float = 100.0
    """With "adaptive": the same for a writer to many channels, for each of them; the longer of the
    two counts. A part-filled buffer costs both workers some 30 us, so this keeps what flushing a
    busy writer costs to a third of the time."""

    busy_poll_us: float = 0.0
    """How long the event loop goes on looking at its sockets, instead of sleeping, after something
    has come or gone; 0 not at all. A record then meets a worker that is awake, for up to so much
    processor time each time. Linux: net.core.busy_poll (0)."""

    record_bytes_max: int = 64 * MIB
    """Largest serialised record, wherever it is put together."""

    record_elements_max: int = 1_048_576
    """Most items and entries that a record's arrays and maps may have, all together: an empty map
    is one byte in a buffer and sixty in memory. At least segment_bytes, because a record of n
    elements has n bytes or more, and what fits a buffer is not counted."""

    record_keys_max: int = RECORD_KEYS_MAX
    """Most keys that are neither text nor bytes which the maps and sets of a record of more than
    33,024 bytes may have, all together; up to 64 in one do not count. Python hashes them without a
    salt, so a peer can choose them such that n keys take n*n/2 comparisons: 0.2 s for as many as
    these. Where all peers are trusted it may be as high as record_elements_max."""

    record_spill_bytes: int = 5 * MIB
    """Bytes of a record that spans buffers from which on a reader puts it together on disk.
    Flink: the threshold of SpillingAdaptiveSpanningRecordDeserializer (5 MiB)."""

    reassembly_memory_bytes: int = 64 * MIB
    """What all records of a worker that are being put together may take in memory; one whose next
    piece would exceed it goes to disk, however short it is. Else each channel could hold
    record_spill_bytes, and a worker has thousands. All of large bytes or of an Arrow batch counts
    from the first piece on, where there is room for all of it."""

    spill_directory: str = ""
    """Where long records are put together; the system's temporary directory if empty. Nothing else
    bounds what they take there: up to record_bytes_max for each channel of the worker. Flink:
    io.tmp.dirs."""

    remembered_keys_bytes: int = REMEMBERED_KEYS_BYTES
    """Memory of the keys whose channel the writer of a keyed exchange remembers; when it is full,
    it begins anew. A longer key is hashed each time, as all are with 0."""

    outbox_bytes_max: int = 512 * KIB
    """Bytes handed to a connection's socket and not yet written by it. More gains nothing on
    loopback and delays events, which queue behind it."""

    receive_buffer_bytes: int = 256 * KIB
    """Bytes that one socket read may return."""

    turn_messages_max: int = 250
    """Messages of one connection that are handled in one turn of the event loop; the rest waits for
    the next turn, and the socket is not read meanwhile. A message takes some microseconds, so a
    peer that sends tiny ones without end keeps the others waiting for about a millisecond; to pause
    takes as long as two of them."""

    turn_bytes_max: int = 1 * MIB
    """Bytes of one connection that are read in one turn of the event loop, to the end of the read
    that reaches it; uvloop would go on for as long as a peer sends."""

    rendezvous_timeout_ms: float = 60_000.0
    """How long the two ends of a channel wait for each other, whichever starts first: a consumer
    for an address where nobody listens, then for a partition that is not registered there; a writer
    that is blocked, or finishing, for a reader that never came. 0 waits for ever. A minute is
    longer than two programs take to be started by hand, one after the other. Flink:
    taskmanager.network.partition-request-timeout (10 s), of the second part."""

    rendezvous_notice_ms: float = 5_000.0
    """After how long such a wait is told in the log, once: who waits for whom; 0 for never."""

    ended_partitions_remembered_max: int = 10_000
    """Partitions that have ended and that a worker remembers, so that a reader that comes late gets
    the reason at once. A long-lived worker must not grow with every job."""

    ended_partitions_remembered_ms: float = 600_000.0
    """Time for which a worker remembers an ended partition, and a directory of names the error of a
    writer that failed before its reader had come. Longer than the time between the starts of two
    programs, and shorter than that until a name is used for something else."""

    connect_timeout_ms: float = 10_000.0
    """Time for one connect and handshake. Flink:
    taskmanager.network.netty.client.connectTimeoutSec."""

    connect_backoff_ms: float = 100.0
    """Longest wait before the second try to connect, doubled for each one after it; at random it is
    up to half shorter. Tries end with rendezvous_timeout_ms.
    Flink: taskmanager.network.request-backoff.initial (100)."""

    connect_backoff_max_ms: float = 2_000.0
    """The longest wait between two tries: so much later than the producer a consumer may begin, for
    a few packets a second. Flink: taskmanager.network.request-backoff.max (10000)."""

    heartbeat_interval_ms: float = 10_000.0
    """A connection that has nothing to send says so this often, ahead of any data. Flink:
    heartbeat.interval (10 s)."""

    heartbeat_timeout_ms: float = 60_000.0
    """A peer that has sent nothing, or taken nothing of what it was sent, for this long is given up
    and its connection lost. Longer than any user function may block the peer's event loop. 0 never
    gives up a peer that is there and silent, and no writer gives up a consumer that has not come:
    another component finds the processes that hang. So it is among the workers of a cluster,
    whatever stands here. Flink: heartbeat.timeout (50 s)."""

    unreachable_timeout_ms: float = 30_000.0
    """A peer whose machine has acknowledged nothing for this long, though something is due, is
    given up: it is gone, or the network is cut. That is looked at once per heartbeat_interval_ms. A
    process that is held up, or stopped, does not keep its machine from acknowledging. 0: only
    when TCP gives up, after some 15 minutes. Linux alone tells."""

    close_timeout_ms: float = 2_000.0
    """Time for the peers of a closing worker to take what it has already written, and for a peer
    that broke the protocol to hear why, before it is cut off."""

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
            f"segment_bytes ({self.segment_bytes}): lower the one or raise the other",
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
            f"more, one is being filled while the other is sent",
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
            f"({self.segment_bytes}) or more, what fits a buffer is not counted",
        )
        require_at_least(self, 0, "remembered_keys_bytes", "record_keys_max")
        require(
            self.record_spill_bytes >= 100 * KIB,
            f"record_spill_bytes is {self.record_spill_bytes}: choose 100 KiB or more, shorter "
            f"records take less memory than their place on disk",
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
        # Those of one minute may come in the next, together with its own.
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
            f"receive_buffer_bytes is {self.receive_buffer_bytes}: choose 4 KiB to 64 MiB, each "
            f"connection allocates them",
        )

    @property
    def large_record_extra_buffers(self) -> int:
        """How many buffers more a partition or a gate may use while records are large. None without
        credit: there a gate cannot say that it has more."""
        if self.flow_control == "off":
            return 0
        return max(0, self.large_record_buffers_max - self.buffers_per_subpartition_max)

    @property
    def segments(self) -> int:
        """How many whole network buffers the network memory holds."""
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

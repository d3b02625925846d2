"""Limits and defaults of a cluster: its processes, and how they monitor each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from flinknet.config.checks import (
    KIB,
    MIB,
    check_fields,
    require,
    require_at_least,
    require_port,
    require_positive,
)
from flinknet.config.tls import TlsConfig

__all__ = ["TOKEN_VARIABLE", "ClusterConfig"]

TOKEN_VARIABLE = "FLINKNET_CLUSTER_TOKEN"
"""The environment variable with the cluster's secret.

The secret is never on a command line, where other users could read it.
"""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """The processes of a cluster, and how they monitor each other."""

    workers: int = 2
    """Number of worker processes; each has one event loop and so uses one core."""

    slots_per_worker: int = 2
    """Number of subtasks of one operator that a worker runs in parallel.

    Flink: taskmanager.numberOfTaskSlots.
    """

    host: str = "127.0.0.1"
    """Address to which coordinator and workers bind.

    On loopback the cluster token keeps out other processes of this machine. For other addresses,
    use TLS as well (cluster.tls). Flink: taskmanager.bind-host, rest.bind-address.
    """

    advertised_host: str = ""
    """Name or address under which other processes reach this one; by default ``host``.

    It may include a port after a colon, for NAT. A worker that listens at 0.0.0.0, all addresses of
    its machine, by default advertises the address that it has towards the coordinator. Flink:
    taskmanager.host, rest.address.
    """

    token_file: str = ""
    """File with the cluster's secret, readable only by its owner (mode 0600).

    It is used if FLINKNET_CLUSTER_TOKEN is not set. A launched cluster generates a secret if
    neither exists.
    """

    coordinator_port: int = 0
    """Port of the control plane; 0 for any free port. Flink: rest.port."""

    rest_flink_version: str = "1.20.3"
    """Flink version that the REST API under /v1 reports.

    The API is tested with the clients of this version.
    """

    data_port: int = 0
    """First data port: worker i listens on data_port + i; 0 for any free ports.

    A worker that is started on its own listens on this port. Flink: taskmanager.data.port.
    """

    metrics: bool = True
    """Whether coordinator and workers serve /metrics, for Prometheus.

    Statistics are sent to the coordinator in any case.
    """

    metrics_port: int = 0
    """First port of the workers' /metrics; 0 for any free ports.

    Worker i listens on metrics_port + i, and a worker that is started on its own on this port. The
    coordinator lists the workers' ports at /metrics/targets, and serves its own metrics beside it.
    Flink: metrics.reporter.prom.port (9249).
    """

    event_loop: Literal["auto", "uvloop", "asyncio"] = "auto"
    """Event loop of the workers; "auto" means uvloop if available, otherwise asyncio's own."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of user code's log messages in a worker.

    flinknet's own loggers show only warnings and errors, or everything with "debug". Flink:
    rootLogger.level (INFO).
    """

    log_format: Literal["text", "json"] = "text"
    """Format of log messages: lines of text, or one object per line for log collectors."""

    output_kept_bytes: int = MIB
    """Size of the end of a process's log, and of its output, kept in memory.

    REST clients and the web page can read it. Flink uses files, and returns them whole.
    """

    log_file_bytes_max: int = 16 * MIB
    """Maximum size of a log file in a cluster that stays.

    One file holds the log messages of its processes, another the output of user code. A full file
    is renamed and replaces the previous one, so a cluster that runs for years keeps at most twice
    this size of each. Flink: env.log.max (10 files of 100 MiB).
    """

    garbage_collection: Literal["short", "python"] = "short"
    """Mode of CPython's garbage collector in a worker.

    With "short", it stops the event loop for some milliseconds at a time. If there is much state,
    old objects that refer only to each other are freed at the end of the job. With "python", they
    are freed earlier, but with a million keys each collection stops the loop for up to a second.
    """

    hash_seed: int = 0
    """Seed of Python's hash of text and bytes in coordinator and workers, 0 to 4294967295.

    This is PYTHONHASHSEED. All processes share it, so that functions that call hash() agree in
    every worker, after a restart and after a savepoint. It must not change while jobs resume from
    saved state. A known seed allows crafted keys that collide in a dict and slow it down. If the
    sources of records are not trusted, choose a seed of your own and keep it secret. Spark uses 0
    as well.
    """

    start_timeout_ms: float = 30_000.0
    """Time for all processes to start and register."""

    stop_timeout_ms: float = 5_000.0
    """Time for a process to stop on request, before it is killed."""

    drain_timeout_ms: float = 25_000.0
    """Time for jobs to leave a worker that received SIGTERM, before the worker ends anyway.

    The jobs take a checkpoint, from which they resume elsewhere. This applies to clusters without a
    launcher. It is less than the grace period of the sender of the signal: Kubernetes has 30 s,
    systemd 90 s.
    """

    heartbeat_interval_ms: float = 1_000.0
    """Interval between two heartbeats of a worker. Flink: heartbeat.interval (10 s)."""

    heartbeat_timeout_ms: float = 30_000.0
    """Silence after which a worker counts as lost.

    Its process is stopped, or its machine is gone. If user code blocks a worker's event loop, a
    companion process sends heartbeats for it. A worker that ends is noticed at once. Flink:
    heartbeat.timeout (50 s).
    """

    task_stuck_timeout_ms: float = 0.0
    """Time for which user code may block a worker's event loop before the worker counts as lost.

    0 means any time. Set it for functions that may never return.
    """

    coordinator_timeout_ms: float = 30_000.0
    """Silence of the coordinator after which a worker ends and a client's call fails.

    For a call, the time that the call itself waits for is added. Each heartbeat of a worker is
    answered. The coordinator runs no user code; the limit is this long only because the coordinator
    may have to receive a large result. Flink: heartbeat.timeout (50 s), client.timeout (60 s).
    """

    state_directory: str = ""
    """Directory in which the coordinator stores its jobs; empty to end them with the coordinator.

    A new coordinator with the same directory resumes the jobs. The directory must be on the
    machine's own disk or on a file system with file locks. If it is empty, a local cluster has a
    directory of its own while it lives. Flink: high-availability.storageDir.
    """

    coordinator_wait_ms: float = 300_000.0
    """Time for which a starting worker tries to reach its coordinator.

    Processes of a cluster can thus start in any order. After registration, coordinator_return_ms
    applies. 0 requires a running coordinator. Flink: taskmanager.registration.timeout (5 min).
    """

    coordinator_return_ms: float = 60_000.0
    """Time for which workers and clients try to reach a lost coordinator again.

    The coordinator may restart or become reachable again. Flink: cluster.registration.* and the
    REST client's retries (20 times 3 s).
    """

    coordinator_restarts: int = 10
    """Maximum number of times that a local cluster restarts a coordinator that died.

    The restarts of the last ``coordinator_restarts_interval_ms`` count. A coordinator that keeps
    dying does so because of its input.
    """

    coordinator_restarts_interval_ms: float = 3_600_000.0
    """Time over which ``coordinator_restarts`` counts.

    In a cluster that stays for months, a coordinator may die now and then for unrelated reasons.
    """

    progress_interval_ms: float = 250.0
    """Interval between two progress reports of a worker."""

    statistics_interval_ms: float = 5_000.0
    """Interval between two reports of a worker's statistics.

    They cover pools, connections, gates and partitions. Rates are updated at the same interval.
    Flink: View.UPDATE_INTERVAL_SECONDS (5 s).
    """

    statistics_bytes_max: int = 256 * KIB
    """Maximum size of such a report, and at most half a control message.

    This suffices for some hundred subtasks. Rows that do not fit are left out and counted. A report
    must not delay a heartbeat.
    """

    statistics_channels_max: int = 1_000
    """Maximum number of channels that a worker lists on request, the fullest first.

    There may be tens of thousands, but a reader has no use for more.
    """

    stack_samples: int = 100
    """Number of samples of a vertex's subtasks for a flame graph.

    They also give the share of time that the subtasks wait for output buffers. Flink:
    rest.flamegraph.num-samples (100), before 1.13 web.backpressure.num-samples (100).
    """

    stack_sample_delay_ms: float = 50.0
    """Interval between two samples.

    A periodic activity with the same interval would appear as the main activity. Flink:
    rest.flamegraph.delay-between-samples (50 ms), before 1.13
    web.backpressure.delay-between-samples (50 ms).
    """

    stack_sample_refresh_ms: float = 60_000.0
    """Time for which the samples of a vertex are shown before new ones are taken.

    Sampling has a cost for the workers. Flink: rest.flamegraph.refresh-interval (1 min), before
    1.13 web.backpressure.refresh-interval (1 min).
    """

    stack_depth_max: int = 100
    """Maximum number of calls in a reported stack; the outermost ones are kept.

    Flink: rest.flamegraph.stack-depth (100).
    """

    stacks_distinct_max: int = 10_000
    """Maximum number of different stacks in one sampling; further ones count as one placeholder.

    A recursive function has a stack for each of its depths.
    """

    cause_grace_ms: float = 1_000.0
    """Time that a lost data connection waits for a better explanation.

    If the worker behind it has ended, that is the cause of the failure; otherwise the connection is
    reported. A lost worker of a local cluster has the same time to end by itself before it is
    killed, so that its exit status explains the loss.
    """

    collect_records_max: int = 1_000_000
    """Maximum number of records that a collect sink may keep in each subtask.

    They stay in memory until the job ends. An Arrow record batch is one record; collect_bytes_max
    bounds its size.
    """

    collect_bytes_max: int = 256 * MIB
    """Maximum number of bytes that all collect sinks of a job may return together."""

    mailbox_mails_max: int = 1_000
    """Maximum number of calls that may wait in the mailbox of a subtask.

    They wait for the end of a batch. The worker makes these calls, a few at a time. The limit is
    for a subtask with a user function that blocks.
    """

    cancel_timeout_ms: float = 5_000.0
    """Time for the subtasks of a failed or cancelled job to stop, before the job ends without them.

    A user function that blocks never sees the cancellation. Flink: task.cancellation.timeout (180
    s).
    """

    restart_slots_timeout_ms: float = 60_000.0
    """Time for which a restarting job waits for slots.

    A user function may still occupy the job's own slots, or a worker may be starting to replace a
    lost one. Flink: slot.request.timeout (5 min).
    """

    commit_timeout_ms: float = 60_000.0
    """Time for one worker to commit or abort the prepared output of a job's two-phase sinks.

    A commit is a few renames, on a file system that may be remote.
    """

    control_message_bytes_max: int = 4 * MIB
    """Maximum size of a message on a worker's control websocket.

    Bulk data is sent separately in HTTP bodies, so that a heartbeat never queues behind it.
    """

    http_connections_max: int = 512
    """Maximum number of connections to the control plane.

    At the limit, the connection that has waited longest for a request is closed. A worker needs up
    to four: for its messages, deployments and results.
    """

    http_tls_handshakes_per_second_max: int = 200
    """Maximum number of TLS handshakes per second at an HTTP server of the cluster.

    Half as many may start at once. Further ones wait, and hosts take turns. A handshake costs about
    a millisecond. Workers and clients keep their connections, so they need few.
    """

    http_request_timeout_ms: float = 15_000.0
    """Time for the head of a request to arrive, and again for its body.

    It starts with the connection or the last answer. Flink: rest.idleness-timeout (5 min).
    """

    job_bytes_max: int = 64 * MIB
    """Maximum size of a submitted job graph, with its functions, collections and files.

    The coordinator keeps it in memory while the job lives.
    """

    job_files_unpacked_bytes_max: int = 512 * MIB
    """Maximum unpacked size of one job's files on a worker's disk.

    An archive of some kilobytes may hold gigabytes of zeros.
    """

    job_files_count_max: int = 20_000
    """Maximum number of unpacked files; each takes at least a block and a directory entry."""

    job_shape_bytes_max: int = 2 * MIB
    """Maximum size of the part of a job graph that the coordinator reads itself.

    It contains vertices, edges and settings; some 8,000 vertices with long names have this size. An
    empty map takes one byte there and about 70 in memory. A submission therefore costs at most 140
    MiB and a fifth of a second, in addition to the graph, which is passed on unread.
    """

    failure_text_bytes_max: int = 16 * KIB
    """Maximum size of a remote traceback sent to the user; its end is kept, with the cause."""

    jobs_waiting_max: int = 20
    """Maximum number of jobs that wait for slots because their submission asks for it.

    The option is --wait-for-slots. The coordinator keeps the graph of each, up to job_bytes_max.
    """

    jobs_retained: int = 20
    """Number of ended jobs that the coordinator remembers; the oldest is forgotten first."""

    attempts_retained: int = 16
    """Number of earlier attempts of a job that the coordinator remembers.

    The oldest is forgotten first. A job that fails repeatedly must not fill the memory. Flink:
    jobmanager.execution.attempts-history-size (16).
    """

    failover_strategy: Literal["region", "full"] = "region"
    """Part of a job that is restarted after a partial failure.

    With "region", the pipelined regions that the failure affects restart, and regions that exchange
    no records with them continue. With "full", the whole job restarts. Flink:
    jobmanager.execution.failover-strategy (region).
    """

    failed_names_remembered_max: int = 1_000
    """Number of errors of named partitions' producers that the coordinator keeps for late readers.

    Each is kept for the producer's network.ended_partitions_remembered_ms; the oldest is forgotten
    first.
    """

    lost_workers_retained: int = 100
    """Number of lost workers that the coordinator remembers.

    The worker that was lost first is forgotten first, and another may then have its id. At least
    ``workers`` are kept, so that each can be replaced.
    """

    launcher: str = "local"
    """Name of the launcher that starts the processes of a program's own cluster.

    "local" starts them on this machine, "spark" starts the workers in executors of Spark. Packages
    may install other launchers, as entry points of the group flinknet.launchers.
    """

    tls: TlsConfig = field(default_factory=TlsConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            0 <= self.workers <= 1024,
            f"workers is {self.workers}: choose 1 to 1024 worker processes, or 0 for a coordinator "
            "alone",
        )
        require(
            1 <= self.slots_per_worker <= 4096,
            f"slots_per_worker is {self.slots_per_worker}: choose 1 to 4096",
        )
        self._check_ports()
        require(
            0 <= self.hash_seed <= 0xFFFF_FFFF,
            f"hash_seed is {self.hash_seed}: choose 0 to 4294967295",
        )
        require_positive(
            self,
            "start_timeout_ms",
            "stop_timeout_ms",
            "heartbeat_interval_ms",
            "progress_interval_ms",
            "statistics_interval_ms",
            "stack_sample_delay_ms",
            "coordinator_restarts_interval_ms",
            "http_request_timeout_ms",
            "cancel_timeout_ms",
            "restart_slots_timeout_ms",
            "commit_timeout_ms",
        )
        for name in ("heartbeat_timeout_ms", "coordinator_timeout_ms"):
            require(
                getattr(self, name) >= 2 * self.heartbeat_interval_ms,
                f"{name} is {getattr(self, name)}: choose at least twice heartbeat_interval_ms "
                f"({self.heartbeat_interval_ms})",
            )
        require_at_least(self, 1, "http_tls_handshakes_per_second_max")
        require(
            self.http_connections_max >= 4 * self.workers + 4,
            f"http_connections_max is {self.http_connections_max}: choose at least four for each "
            f"of the {self.workers} workers, and four more",
        )
        require_at_least(
            self,
            0,
            "cause_grace_ms",
            "drain_timeout_ms",
            "task_stuck_timeout_ms",
            "collect_records_max",
            "attempts_retained",
            "statistics_channels_max",
            "stack_sample_refresh_ms",
            "coordinator_wait_ms",
            "coordinator_return_ms",
            "coordinator_restarts",
        )
        for name, least in (
            ("collect_bytes_max", KIB),
            ("control_message_bytes_max", 64 * KIB),
            ("statistics_bytes_max", 4 * KIB),
            ("job_bytes_max", KIB),
            ("job_files_unpacked_bytes_max", KIB),
            ("job_files_count_max", 1),
            ("job_shape_bytes_max", KIB),
            ("failure_text_bytes_max", 256),
            ("output_kept_bytes", KIB),
            ("log_file_bytes_max", 64 * KIB),
            ("stack_samples", 1),
            ("stack_depth_max", 1),
            ("stacks_distinct_max", 1),
            ("jobs_waiting_max", 0),
            ("jobs_retained", 1),
            ("failed_names_remembered_max", 1),
            ("lost_workers_retained", 1),
            ("mailbox_mails_max", 1),
        ):
            require_at_least(self, least, name)

    @property
    def lost_workers_remembered(self) -> int:
        """The number of lost workers to remember: at least the number of workers."""
        return max(self.lost_workers_retained, self.workers)

    def _check_ports(self) -> None:
        require_port(self.coordinator_port, "coordinator_port")
        for option in ("data_port", "metrics_port"):
            first = getattr(self, option)
            last = first + self.workers - 1
            require_port(first, option)
            require(
                first == 0 or last <= 65535,
                f"{option} {first} with {self.workers} workers exceeds port 65535",
            )
            require(
                first == 0 or not first <= self.coordinator_port <= last,
                f"coordinator_port is {self.coordinator_port}, which a worker uses too: the "
                f"{self.workers} workers listen on {option} {first} to {last}",
            )
        require(
            0 in (self.data_port, self.metrics_port)
            or abs(self.data_port - self.metrics_port) >= self.workers,
            f"metrics_port is {self.metrics_port} and data_port {self.data_port}: choose them "
            f"{self.workers} apart at least, because each of the workers takes one of both",
        )

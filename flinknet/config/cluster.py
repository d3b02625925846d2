"""The limits and defaults of a cluster: its processes, and how they watch each other."""

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
"""The environment variable that has the cluster's secret: it is in no file and on no command line,
where others could read it."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster: its processes and how they watch each other."""

    workers: int = 2
    """Worker processes. Each is one event loop, so one core."""

    slots_per_worker: int = 2
    """Subtasks of one kind that a worker runs side by side. Flink:
    taskmanager.numberOfTaskSlots."""

    host: str = "127.0.0.1"
    """Address that coordinator and workers bind to. Other processes of this machine know the
    cluster token or nothing; beyond loopback choose TLS, too (cluster.tls). Flink:
    taskmanager.bind-host, rest.bind-address."""

    advertised_host: str = ""
    """Name or address under which other processes reach this one, with a port behind a colon if
    that is another one, too (NAT); ``host`` if it is empty. A worker that listens at 0.0.0.0, which
    is every address of its machine, says by default the address that it has towards the
    coordinator. Flink: taskmanager.host, rest.address."""

    token_file: str = ""
    """File with the cluster's secret, which its owner alone may read (mode 0600), for where
    FLINKNET_CLUSTER_TOKEN is not set. A launched cluster makes a secret up if there is neither."""

    coordinator_port: int = 0
    """Port of the control plane; 0 takes a free one. Flink: rest.port."""

    rest_flink_version: str = "1.20.3"
    """Version of Flink that the REST interface under /v1 says it is: the one whose clients it is
    tested with."""

    data_port: int = 0
    """First data port: worker i listens on data_port + i, and a worker that is started by itself
    on this one; 0 takes free ones. Flink: taskmanager.data.port."""

    metrics: bool = True
    """Whether coordinator and workers serve /metrics, for Prometheus. Statistics go to the
    coordinator all the same."""

    metrics_port: int = 0
    """First port of the workers' /metrics: worker i listens on metrics_port + i, and a worker that
    is started by itself on this one; 0 takes free ones. The coordinator lists them at
    /metrics/targets, and serves its own beside it. Flink: metrics.reporter.prom.port (9249)."""

    event_loop: Literal["auto", "uvloop", "asyncio"] = "auto"
    """Event loop of the workers: with "auto" uvloop, or asyncio's own where that is not there."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """From which level on what user code logs in a worker is shown. flinknet's own loggers say only
    what is wrong, and with "debug" everything. Flink: rootLogger.level (INFO)."""

    log_format: Literal["text", "json"] = "text"
    """How it is shown: a line of text, or an object per line, for programs that collect logs."""

    output_kept_bytes: int = MIB
    """Of what a process logs, and of what it prints: the end that it keeps in memory, for who asks
    over REST or on the page. Flink has files, and tells them whole."""

    log_file_bytes_max: int = 16 * MIB
    """Of each log file of a cluster that stays, one of what its processes log and one of what user
    code prints: a full one is renamed, in the place of the one before it, so that a cluster that
    runs for years keeps twice as much of each. Flink: env.log.max (10 files of 100 MiB)."""

    garbage_collection: Literal["short", "python"] = "short"
    """What CPython's collector does in a worker. With "short" it stops the event loop for some
    milliseconds at a time; objects that live for long and then only refer to each other are freed
    at the end of the job, if there is much state. With "python" they are freed before, and with a
    million keys the loop stands still for up to a second each time."""

    hash_seed: int = 0
    """Seed of Python's hash of text and bytes in coordinator and workers, 0 to 4294967295
    (PYTHONHASHSEED): one for all, so that functions that call hash() agree in every worker, after a
    restart and after a savepoint. It must stay as it is for as long as jobs go on from what they
    have saved. A seed that is known lets keys be made that collide in a dict and slow it down:
    choose one of your own, and keep it secret, if records come from people who might. Spark has 0,
    too."""

    start_timeout_ms: float = 30_000.0
    """Time for all processes to start and register."""

    stop_timeout_ms: float = 5_000.0
    """Time for a process to stop on request, before it is killed."""

    drain_timeout_ms: float = 25_000.0
    """Time for jobs to leave a worker that got SIGTERM, with a checkpoint from which they go on
    elsewhere, before it ends all the same; in a cluster without a launcher. It is less than the
    grace of what sends the signal: Kubernetes has 30 s, systemd 90 s."""

    heartbeat_interval_ms: float = 1_000.0
    """Pause between two heartbeats of a worker. Flink: heartbeat.interval (10 s)."""

    heartbeat_timeout_ms: float = 30_000.0
    """Silence after which a worker counts as lost: its process is stopped, or its machine is gone.
    User code that holds up its event loop does not silence it: a process beside it speaks for it
    then. A worker that ends is noticed at once. Flink: heartbeat.timeout (50 s)."""

    task_stuck_timeout_ms: float = 0.0
    """How long user code may hold up a worker's event loop before the worker counts as lost; 0 for
    any time. For functions that may never return."""

    coordinator_timeout_ms: float = 30_000.0
    """Silence of the coordinator after which a worker ends and a client's call fails, beyond the
    time that the call itself waits for. Each heartbeat of a worker is answered; the coordinator
    runs no user code, so it is only this long because it may have to take in a large result. Flink:
    heartbeat.timeout (50 s), client.timeout (60 s)."""

    state_directory: str = ""
    """Directory in which the coordinator keeps its jobs, so that another one, which is started in
    its place with the same directory, resumes them; of this machine's own disk or one that keeps
    file locks. Empty: its jobs end with it. A local cluster has a directory of its own then, for as
    long as it lives. Flink: high-availability.storageDir."""

    coordinator_wait_ms: float = 300_000.0
    """How long a worker that starts tries to reach its coordinator, so that the processes of a
    cluster may be started in any order. Once it has registered, coordinator_return_ms counts. 0:
    the coordinator must be there. Flink: taskmanager.registration.timeout (5 min)."""

    coordinator_return_ms: float = 60_000.0
    """How long workers and clients that lose the coordinator, which may be started anew or be
    reached again, try to before they give up. Flink: cluster.registration.* and the rest client's
    retries (20 times 3 s)."""

    coordinator_restarts: int = 10
    """How often a local cluster starts a coordinator that has died anew, within
    coordinator_restarts_interval_ms. One that dies again and again does so because of what it is
    given."""

    coordinator_restarts_interval_ms: float = 3_600_000.0
    """Over which coordinator_restarts counts. A cluster may stay for months, in which a coordinator
    dies now and then for reasons that have nothing to do with each other."""

    progress_interval_ms: float = 250.0
    """Pause between two progress reports of a worker."""

    statistics_interval_ms: float = 5_000.0
    """Pause between two reports of all that can be seen in a worker: pools, connections, gates and
    partitions. Rates are updated as often. Flink: View.UPDATE_INTERVAL_SECONDS (5 s)."""

    statistics_bytes_max: int = 256 * KIB
    """Largest such report, of some hundred subtasks, but at most half a control message; what does
    not fit is left out and counted. It must not hold back a heartbeat."""

    statistics_channels_max: int = 1_000
    """Channels that a worker lists for who asks, those first where most waits: there may be tens of
    thousands, of which nobody reads more."""

    stack_samples: int = 100
    """How often the subtasks of a vertex are looked at for one flame graph, and for the part of
    the time that they wait for output buffers. Flink: rest.flamegraph.num-samples (100), before
    1.13 web.backpressure.num-samples (100)."""

    stack_sample_delay_ms: float = 50.0
    """Pause between two looks, which takes what a subtask does regularly for what it does most if
    both have the same pace. Flink: rest.flamegraph.delay-between-samples (50 ms), before 1.13
    web.backpressure.delay-between-samples (50 ms)."""

    stack_sample_refresh_ms: float = 60_000.0
    """For how long the samples of a vertex are shown before new ones are taken: to look costs the
    workers something. Flink: rest.flamegraph.refresh-interval (1 min), before 1.13
    web.backpressure.refresh-interval (1 min)."""

    stack_depth_max: int = 100
    """Calls of a stack that are told, the outermost ones. Flink: rest.flamegraph.stack-depth
    (100)."""

    stacks_distinct_max: int = 10_000
    """Different stacks that are told apart in one sampling; what is seen beyond counts as one that
    says so. A recursive function has a stack for each of its depths."""

    cause_grace_ms: float = 1_000.0
    """How long a lost data connection waits for a better explanation (the worker behind it ended)
    before it is itself reported as the cause of a failure; and how long a lost worker of a local
    cluster has to end by itself before it is killed, so that its exit status explains the loss."""

    collect_records_max: int = 1_000_000
    """Records that a collect sink may keep in each of its subtasks, which hold them in memory until
    the job ends. An Arrow record batch is one record: collect_bytes_max bounds its size."""

    collect_bytes_max: int = 256 * MIB
    """Bytes that all collect sinks of a job may bring back together."""

    mailbox_mails_max: int = 1_000
    """Calls that may wait for one subtask to come between two batches. They are the worker's own,
    which makes few at a time; the bound is for one that a user function keeps from coming there."""

    cancel_timeout_ms: float = 5_000.0
    """Time for the subtasks of a failed or cancelled job to stop, before the job ends without them
    (a user function that blocks never sees the cancellation). Flink: task.cancellation.timeout
    (180 s)."""

    restart_slots_timeout_ms: float = 60_000.0
    """How long a job that is to be restarted waits for slots: its own, which a user function may
    still keep, or those of a worker that is started in place of a lost one. Flink:
    slot.request.timeout (5 min)."""

    commit_timeout_ms: float = 60_000.0
    """Time for one worker to commit what the two-phase sinks of a job have prepared, or to abort
    it: some renames, on a file system that may be far away."""

    control_message_bytes_max: int = 4 * MIB
    """Largest message on a worker's control websocket; bulk travels beside it as HTTP bodies, so
    that a heartbeat never queues behind it."""

    http_connections_max: int = 512
    """Connections to the control plane; when there are so many, the one that has waited longest for
    a request makes room. A worker needs up to four: its messages, deployments and results."""

    http_tls_handshakes_per_second_max: int = 200
    """Handshakes of TLS that may begin in a second with an HTTP server of the cluster; half as many
    may come at once. Further ones wait, and hosts take turns. One costs about a millisecond. The
    connections of workers and clients stay, so that they need few."""

    http_request_timeout_ms: float = 15_000.0
    """Time for the head of a request to come, from the connection or the last answer on, and again
    for its body. Flink: rest.idleness-timeout (5 min)."""

    job_bytes_max: int = 64 * MIB
    """Largest job graph that a client may submit, with the functions and collections inside it and
    the files that come with it: the coordinator keeps it in memory while the job lives."""

    job_files_unpacked_bytes_max: int = 512 * MIB
    """What the files of one job may unpack to on a worker's disk: an archive of some kilobytes may
    hold gigabytes of zeros."""

    job_files_count_max: int = 20_000
    """How many files that may be; each takes a block and an entry of a directory at least."""

    job_shape_bytes_max: int = 2 * MIB
    """Largest part of it that the coordinator reads itself: vertices, edges and settings, of which
    some 8,000 vertices with long names have as much. An empty map is one byte there and some 70 in
    memory, so a submission costs at most 140 MiB and a fifth of a second beside the graph, which is
    passed on as it is."""

    failure_text_bytes_max: int = 16 * KIB
    """Most of a remote traceback that travels to the user; its end is kept, because the cause is
    there."""

    jobs_waiting_max: int = 20
    """Jobs that wait for slots because their submissions ask for that (--wait-for-slots); the
    coordinator keeps the graph of each, up to job_bytes_max."""

    jobs_retained: int = 20
    """Ended jobs whose story the coordinator keeps; the oldest is forgotten first."""

    attempts_retained: int = 16
    """Earlier attempts of a job whose story the coordinator keeps; the oldest is forgotten first.
    A job that fails again and again must not fill the memory with it. Flink:
    jobmanager.execution.attempts-history-size (16)."""

    failover_strategy: Literal["region", "full"] = "region"
    """What is restarted when a part of a job fails: the pipelined regions that the failure
    concerns, while others with which they exchange no records go on, or all of the job. Flink:
    jobmanager.execution.failover-strategy (region)."""

    failed_names_remembered_max: int = 1_000
    """Errors of producers of named partitions that the coordinator keeps for readers that come
    later, each for the producer's network.ended_partitions_remembered_ms; the oldest goes first."""

    lost_workers_retained: int = 100
    """Lost workers of which the coordinator still tells; the one that was lost first is forgotten
    first, and another may have its id. As many as ``workers`` are kept in any case, so that each
    can be replaced."""

    launcher: str = "local"
    """Name of the launcher that starts the processes of a program's own cluster. "local" starts
    them on this machine, "spark" the workers in executors of Spark. A package may install others,
    as entry points of the group flinknet.launchers."""

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
        """``lost_workers_retained``, or as many as there are workers."""
        return max(self.lost_workers_retained, self.workers)

    def _check_ports(self) -> None:
        require_port(self.coordinator_port, "coordinator_port")
        for option in ("data_port", "metrics_port"):
            first = getattr(self, option)
            last = first + self.workers - 1
            require_port(first, option)
            require(
                first == 0 or last <= 65535,
                f"{option} {first} with {self.workers} workers goes over port 65535",
            )
            require(
                first == 0 or not first <= self.coordinator_port <= last,
                f"coordinator_port is {self.coordinator_port}, which a worker takes too: the "
                f"{self.workers} workers listen on {option} {first} to {last}",
            )
        require(
            0 in (self.data_port, self.metrics_port)
            or abs(self.data_port - self.metrics_port) >= self.workers,
            f"metrics_port is {self.metrics_port} and data_port {self.data_port}: choose them "
            f"{self.workers} apart at least, because each of the workers takes one of both",
        )

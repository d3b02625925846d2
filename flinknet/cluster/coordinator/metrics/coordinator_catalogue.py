"""The coordinator's metrics: Flink's metrics of its JobManager and jobs, and flinknet's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.metrics.registry import Adding, Catalogue, Family, Kind, Labels, Metric, Unit

__all__ = [
    "CLUSTER",
    "COORDINATOR_CATALOGUES",
    "JOB",
    "cluster_values",
    "coordinator_families",
    "job_values",
]

MAX, MIN = Adding.MAX, Adding.MIN
COUNTER = Kind.COUNTER

_HOST = ("host",)


class _JobNow(NamedTuple):
    """A job, and the coordinator's time of the reading."""

    job: JobRecord
    now: float


def _registered(dispatcher: Dispatcher) -> int:
    return len(dispatcher.workers.registered())


def _running(dispatcher: Dispatcher) -> int:
    return len(_living(dispatcher))


def _slots(dispatcher: Dispatcher) -> int:
    return sum(worker.slots for worker in dispatcher.workers.registered())


def _free_slots(dispatcher: Dispatcher) -> int:
    return sum(worker.free_slots for worker in dispatcher.workers.registered())


def _living(dispatcher: Dispatcher) -> list[JobRecord]:
    return [job for job in dispatcher.jobs() if job.ended_at is None]


def _pending(one: _JobNow) -> int:
    return len(one.job.checkpoints.pending)


def _last(name: str) -> Callable[[_JobNow], float]:
    """Read a number of the last completed checkpoint; -1, as in Flink, if there is none."""

    def value(one: _JobNow) -> float:
        last = one.job.checkpoints.history.last_completed
        return -1 if last is None else last.metrics[name]

    return value


def _last_id(one: _JobNow) -> float:
    last = one.job.checkpoints.history.last_completed
    return -1 if last is None else last.checkpoint_id


def _last_duration_ms(one: _JobNow) -> float:
    last = one.job.checkpoints.history.last_completed
    return -1 if last is None else round(last.seconds * 1000)


def _last_age_s(one: _JobNow) -> float | None:
    return one.job.checkpoints.history.age_s(one.now)


def _uptime_ms(one: _JobNow) -> float:
    """Return 0 while the present attempt does not run."""
    runs = one.job.execution.state in (JobState.RUNNING, JobState.FINISHING)
    return 1000 * (one.now - one.job.present.begun_at) if runs else 0.0


def _downtime_ms(one: _JobNow) -> float:
    """Return 0 while the job runs, or has not failed."""
    job = one.job
    failed_at = job.state_since.get(JobState.FAILING)
    if failed_at is None or job.state in (JobState.RUNNING, JobState.FINISHING):
        return 0.0
    has_run_since = job.state_since.get(JobState.RUNNING, failed_at) > failed_at
    return 0.0 if has_run_since else 1000 * (one.now - failed_at)


# fmt: off
CLUSTER: Catalogue[Dispatcher] = Catalogue(
    "Cluster",
    (
        Metric("numRegisteredTaskManagers", Unit.NUMBER, _registered, "Workers that are registered"),
        Metric("numRunningJobs", Unit.NUMBER, _running, "Jobs that have not ended"),
        Metric("taskSlotsTotal", Unit.NUMBER, _slots, "Slots of registered workers"),
        Metric("taskSlotsAvailable", Unit.NUMBER, _free_slots, "Slots of registered workers that are free"),
    ),
    scope="jobmanager",
    labels=_HOST,
    rest="/v1/jobmanager/metrics",
)

JOB: Catalogue[_JobNow] = Catalogue(
    "Jobs",
    (
        Metric("numRestarts", Unit.NUMBER, "job.present.last_number", "Attempts after the first one, and restarts of regions", COUNTER),
        Metric("fullRestarts", Unit.NUMBER, "job.present.last_number", "The same as numRestarts", COUNTER),
        Metric("totalNumberOfCheckpoints", Unit.NUMBER, "job.checkpoints.history.triggered", "Checkpoints triggered", COUNTER),
        Metric("numberOfCompletedCheckpoints", Unit.NUMBER, "job.checkpoints.history.completed", "Checkpoints completed", COUNTER),
        Metric("numberOfFailedCheckpoints", Unit.NUMBER, "job.checkpoints.history.failed", "Checkpoints that have failed", COUNTER),
        Metric("numberOfInProgressCheckpoints", Unit.NUMBER, _pending, "Checkpoints that are being taken"),
        Metric("lastCompletedCheckpointId", Unit.NUMBER, _last_id, "Number of the last completed checkpoint; -1 without one, as in all metrics of it", adds=MAX),
        Metric("lastCheckpointDuration", Unit.MILLISECONDS, _last_duration_ms, "Time that the last completed checkpoint took", adds=MAX),
        Metric("lastCheckpointSize", Unit.BYTES, _last("state_bytes"), "State in the last completed checkpoint"),
        Metric("lastCheckpointFullSize", Unit.BYTES, _last("state_bytes"), "The same as lastCheckpointSize: checkpoints are not incremental"),
        Metric("lastCheckpointProcessedData", Unit.BYTES, _last("processed_bytes"), "Data processed while the last completed checkpoint was aligned"),
        Metric("lastCheckpointPersistedData", Unit.BYTES, _last("persisted_bytes"), "Data in flight that the last completed checkpoint has"),
        Metric("lastCheckpointRestoreTimestamp", Unit.WALL_CLOCK, "job.restored_ms", "Time at which the job was last restored; -1 if it was not", adds=MAX),
        Metric("uptime", Unit.MILLISECONDS, _uptime_ms, "Time for which the present attempt has run", adds=MIN),
        Metric("downtime", Unit.MILLISECONDS, _downtime_ms, "Time for which a job that has failed has not run again", adds=MAX),
    ),
    scope="jobmanager_job",
    labels=(*_HOST, "job_id", "job_name"),
    rest="/v1/jobs/JOB/metrics",
)

_CHECKPOINT_AGE: Catalogue[_JobNow] = Catalogue(
    "Ages of checkpoints",
    (
        Metric("flinknet_coordinator_last_checkpoint_age_seconds", Unit.SECONDS, _last_age_s, "Time since the last completed checkpoint was triggered: the loss if the job failed now", adds=MAX),
    ),
    labels=JOB.labels,
)

_WORKERS: Catalogue[int] = Catalogue(
    "Workers by state",
    (
        Metric("flinknet_coordinator_workers", Unit.NUMBER, int, "Workers that have registered with this coordinator, by state"),
    ),
    labels=(*_HOST, "state"),
)

_REPORT: Catalogue[float] = Catalogue(
    "Reports of workers",
    (
        Metric("flinknet_coordinator_report_age_seconds", Unit.SECONDS, float, "Time since the last statistics of a worker came", adds=MAX),
    ),
    labels=(*_HOST, "tm_id"),
)

_CLOCK: Catalogue[WorkerRecord] = Catalogue(
    "Clocks of workers",
    (
        Metric("flinknet_worker_clock_offset_seconds", Unit.SECONDS, lambda worker: worker.clock_offset_s, "By how much the clock of a worker is ahead of the coordinator's; below 0 if it is behind", adds=MAX),
        Metric("flinknet_worker_clock_error_seconds", Unit.SECONDS, lambda worker: worker.clock_error_s, "By how much that may be wrong at most: half of the shortest round trip", adds=MAX),
    ),
    labels=(*_HOST, "tm_id"),
)

_HTTP: Catalogue[int] = Catalogue(
    "Refusals of the HTTP server",
    (
        Metric("flinknet_http_refused_total", Unit.NUMBER, int, "Connections and requests that the coordinator has refused, by the reason: tls, full, silent, slow, left, malformed, oversized, unauthorized, forbidden, unread", COUNTER),
    ),
    labels=(*_HOST, "reason"),
)
# fmt: on

COORDINATOR_CATALOGUES: tuple[Catalogue[Any], ...] = (
    CLUSTER,
    JOB,
    _CHECKPOINT_AGE,
    _WORKERS,
    _REPORT,
    _CLOCK,
    _HTTP,
)
"""All catalogues, in the order of the documentation."""


def coordinator_families(
    labels: Labels,
    dispatcher: Dispatcher,
    store: MetricStore,
    http_refusals: Mapping[str, int],
    now: float,
) -> Iterator[Family]:
    """Make all metric families that the coordinator exports; jobs that have ended are left out."""
    yield from CLUSTER.families([(labels, dispatcher)])
    jobs = [
        ({**labels, "job_id": job.job_id, "job_name": job.submission.name}, _JobNow(job, now))
        for job in _living(dispatcher)
    ]
    yield from JOB.families(jobs)
    yield from _CHECKPOINT_AGE.families(jobs, even_empty=True)
    states = Counter(worker.status for worker in dispatcher.workers.workers())
    yield from _WORKERS.families(
        [({**labels, "state": state}, number) for state, number in states.items()],
        even_empty=True,
    )
    yield from _REPORT.families(
        [
            ({**labels, "tm_id": worker_id}, now - report.at)
            for worker_id, report in store.latest().items()
        ],
        even_empty=True,
    )
    yield from _CLOCK.families(
        [
            ({**labels, "tm_id": worker.worker_id}, worker)
            for worker in dispatcher.workers.registered()
            if worker.clock_error_s is not None
        ],
        even_empty=True,
    )
    yield from _HTTP.families(
        [({**labels, "reason": reason}, number) for reason, number in http_refusals.items()],
        even_empty=True,
    )


def cluster_values(dispatcher: Dispatcher) -> dict[str, float]:
    """Return the metrics that Flink exports of its JobManager, by Flink's REST names."""
    return CLUSTER.values(dispatcher)


def job_values(job: JobRecord, now: float) -> dict[str, float]:
    """Return the metrics that Flink exports of a job, by Flink's REST names."""
    return JOB.values(_JobNow(job, now))

"""The coordinator's metrics: Flink's of its JobManager, and flinknet's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.metrics.families import Family, Kind, Labels, Metric, families_of

__all__ = ["cluster_values", "coordinator_families", "job_values"]

T = TypeVar("T")

_SCOPE = "flink_jobmanager_"

_CLUSTER: tuple[Metric[Dispatcher], ...] = (
    Metric(
        _SCOPE + "numRegisteredTaskManagers",
        "numRegisteredTaskManagers (scope: jobmanager)",
        lambda dispatcher: len(dispatcher.workers.registered()),
    ),
    Metric(
        _SCOPE + "numRunningJobs",
        "numRunningJobs (scope: jobmanager)",
        lambda dispatcher: len(_living(dispatcher)),
    ),
    Metric(
        _SCOPE + "taskSlotsTotal",
        "taskSlotsTotal (scope: jobmanager)",
        lambda dispatcher: sum(worker.slots for worker in dispatcher.workers.registered()),
    ),
    Metric(
        _SCOPE + "taskSlotsAvailable",
        "taskSlotsAvailable (scope: jobmanager)",
        lambda dispatcher: sum(worker.free_slots for worker in dispatcher.workers.registered()),
    ),
)


def _restarts(job: JobRecord) -> int:
    """Attempts after the first one, and restarts of regions."""
    return job.present.last_number


def _last(name: str) -> Callable[[JobRecord], float]:
    """A number of the last completed checkpoint; -1, as Flink has it, if there is none."""

    def value(job: JobRecord) -> float:
        last = job.checkpoints.history.last_completed
        return -1 if last is None else last.metrics[name]

    return value


def _last_id(job: JobRecord) -> float:
    last = job.checkpoints.history.last_completed
    return -1 if last is None else last.checkpoint_id


def _last_duration(job: JobRecord) -> float:
    last = job.checkpoints.history.last_completed
    return -1 if last is None else round(last.seconds * 1000)


def _of_checkpoints(name: str, value: Callable[[JobRecord], float]) -> Metric[JobRecord]:
    return Metric(f"{_SCOPE}job_{name}", f"{name} (scope: jobmanager_job)", value)


_CHECKPOINTS: tuple[Metric[JobRecord], ...] = (
    _of_checkpoints("totalNumberOfCheckpoints", lambda job: job.checkpoints.history.triggered),
    _of_checkpoints("numberOfCompletedCheckpoints", lambda job: job.checkpoints.history.completed),
    _of_checkpoints("numberOfFailedCheckpoints", lambda job: job.checkpoints.history.failed),
    _of_checkpoints("numberOfInProgressCheckpoints", lambda job: len(job.checkpoints.pending)),
    _of_checkpoints("lastCompletedCheckpointId", _last_id),
    _of_checkpoints("lastCheckpointDuration", _last_duration),
    _of_checkpoints("lastCheckpointSize", _last("state_bytes")),
    _of_checkpoints("lastCheckpointFullSize", _last("state_bytes")),
    _of_checkpoints("lastCheckpointProcessedData", _last("processed_bytes")),
    _of_checkpoints("lastCheckpointPersistedData", _last("persisted_bytes")),
    _of_checkpoints("lastCheckpointRestoreTimestamp", lambda job: job.restored_ms),
)

_JOB: tuple[Metric[JobRecord], ...] = (
    Metric(_SCOPE + "job_numRestarts", "numRestarts (scope: jobmanager_job)", _restarts),
    Metric(_SCOPE + "job_fullRestarts", "fullRestarts (scope: jobmanager_job)", _restarts),
)


def coordinator_families(
    labels: Labels, dispatcher: Dispatcher, store: MetricStore, now: float
) -> Iterator[Family]:
    """Everything that the coordinator exports; of jobs, those that have not ended."""
    yield from families_of(_CLUSTER, [(labels, dispatcher)])
    jobs = [
        ({**labels, "job_id": job.job_id, "job_name": job.submission.name}, job)
        for job in _living(dispatcher)
    ]
    yield from families_of(_JOB, jobs)
    yield from families_of(_CHECKPOINTS, jobs)
    yield from families_of([_uptime(now), _downtime(now)], jobs)
    ages = [(own, job.checkpoints.history.age_s(now)) for own, job in jobs]
    yield Family(
        "flinknet_coordinator_last_checkpoint_age_seconds",
        "Time since the last completed checkpoint was triggered: what a failure would cost now",
        Kind.GAUGE,
        [(own, age) for own, age in ages if age is not None],
    )
    states = Counter(worker.status for worker in dispatcher.workers.workers())
    yield Family(
        "flinknet_coordinator_workers",
        "Workers that have registered with this coordinator, by state",
        Kind.GAUGE,
        [({**labels, "state": state}, number) for state, number in states.items()],
    )
    yield Family(
        "flinknet_coordinator_report_age_seconds",
        "Time since the last statistics of a worker came",
        Kind.GAUGE,
        [
            ({**labels, "tm_id": worker_id}, now - report.at)
            for worker_id, report in store.latest().items()
        ],
    )


def cluster_values(dispatcher: Dispatcher) -> dict[str, float]:
    """What Flink exports of its JobManager, by the names that its REST has."""
    return _values(_CLUSTER, _SCOPE, dispatcher)


def job_values(job: JobRecord, now: float) -> dict[str, float]:
    """What Flink exports of a job, by the names that its REST has."""
    return _values((*_JOB, *_CHECKPOINTS, _uptime(now), _downtime(now)), f"{_SCOPE}job_", job)


def _values(metrics: Iterable[Metric[T]], scope: str, one: T) -> dict[str, float]:
    values = {metric.name.removeprefix(scope): metric.value(one) for metric in metrics}
    return {name: value for name, value in values.items() if value is not None}


def _living(dispatcher: Dispatcher) -> list[JobRecord]:
    return [job for job in dispatcher.jobs() if job.ended_at is None]


def _uptime(now: float) -> Metric[JobRecord]:
    """How long the present attempt has run, in milliseconds; 0 while it does not."""

    def uptime(job: JobRecord) -> float:
        runs = job.execution.state in (JobState.RUNNING, JobState.FINISHING)
        return 1000 * (now - job.present.begun_at) if runs else 0.0

    return Metric(_SCOPE + "job_uptime", "uptime (scope: jobmanager_job)", uptime)


def _downtime(now: float) -> Metric[JobRecord]:
    """How long a job that has failed has not run again, in milliseconds; 0 while it does."""

    def downtime(job: JobRecord) -> float:
        failed_at = job.state_since.get(JobState.FAILING)
        if failed_at is None or job.state in (JobState.RUNNING, JobState.FINISHING):
            return 0.0
        has_run_since = job.state_since.get(JobState.RUNNING, failed_at) > failed_at
        return 0.0 if has_run_since else 1000 * (now - failed_at)

    return Metric(_SCOPE + "job_downtime", "downtime (scope: jobmanager_job)", downtime)

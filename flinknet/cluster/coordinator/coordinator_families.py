"""The coordinator's metrics: Flink's of its JobManager, and flinknet's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.dispatcher import Dispatcher
from flinknet.cluster.coordinator.job_record import JobRecord
from flinknet.cluster.coordinator.metric_store import MetricStore
from flinknet.metrics.families import Family, Kind, Labels, Metric, families_of

__all__ = ["coordinator_families"]

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
    """Attempts after the first one."""
    return job.present.number


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
    yield from families_of([_uptime(now)], jobs)
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


def _living(dispatcher: Dispatcher) -> list[JobRecord]:
    return [job for job in dispatcher.jobs() if job.ended_at is None]


def _uptime(now: float) -> Metric[JobRecord]:
    """How long the present attempt has run, in milliseconds; 0 while it does not."""

    def uptime(job: JobRecord) -> float:
        runs = job.execution.state in (JobState.RUNNING, JobState.FINISHING)
        return 1000 * (now - job.present.begun_at) if runs else 0.0

    return Metric(_SCOPE + "job_uptime", "uptime (scope: jobmanager_job)", uptime)

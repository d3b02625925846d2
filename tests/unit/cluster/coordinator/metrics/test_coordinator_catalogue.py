"""The coordinator's exported metrics, of its workers and of jobs that have not ended."""

from __future__ import annotations

from flinknet.checkpoint.pending_checkpoint import SubtaskReport
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import Heartbeat, Opened, Register, StatisticsReport
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.cluster.coordinator.metrics.coordinator_catalogue import (
    cluster_values,
    coordinator_families,
    job_values,
)
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.config import ClusterConfig
from flinknet.metrics.registry import Labels
from flinknet.metrics.worker_statistics import pack_statistics
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.cluster.graphs import keyed_graph
from tests.unit.metrics.samples import worker

LABELS = {"host": "127.0.0.1"}


class Coordinator:
    """A dispatcher with two workers of two slots, and its exported metrics."""

    def __init__(self) -> None:
        self.store = MetricStore(lambda worker_id, message: None, 5.0)
        self.dispatcher = Dispatcher(ClusterConfig(), now=0.0, send=lambda worker_id, message: None)
        for worker_id in ("worker-0", "worker-1"):
            self.dispatcher.register(Register(worker_id, 1, "127.0.0.1:1", 2), 0.0)

    def exported(self, now: float) -> dict[str, list[tuple[Labels, float]]]:
        families = coordinator_families(LABELS, self.dispatcher, self.store, {"tls": 3}, now)
        return {family.name: list(family.samples) for family in families}


def test_workers_and_slots_have_flinks_names() -> None:
    coordinator = Coordinator()
    body = Submission.of_graph(keyed_graph()).to_bytes()
    coordinator.dispatcher.submit(Submission.from_bytes(body), 0.0)
    coordinator.dispatcher.receive("worker-0", Heartbeat(), 0.0)
    beat = Heartbeat(clock_offset_s=-2.5, clock_error_s=0.001)
    coordinator.dispatcher.receive("worker-1", beat, 0.0)
    exported = coordinator.exported(0.0)
    assert {name: samples for name, samples in exported.items() if "_job_" not in name} == {
        "flink_jobmanager_numRegisteredTaskManagers": [(LABELS, 2)],
        "flink_jobmanager_numRunningJobs": [(LABELS, 1)],
        "flink_jobmanager_taskSlotsTotal": [(LABELS, 4)],
        "flink_jobmanager_taskSlotsAvailable": [(LABELS, 2)],
        "flinknet_coordinator_workers": [({**LABELS, "state": "REGISTERED"}, 2)],
        "flinknet_coordinator_report_age_seconds": [],
        "flinknet_coordinator_last_checkpoint_age_seconds": [],
        "flinknet_worker_clock_offset_seconds": [({**LABELS, "tm_id": "worker-1"}, -2.5)],
        "flinknet_worker_clock_error_seconds": [({**LABELS, "tm_id": "worker-1"}, 0.001)],
        "flinknet_http_refused_total": [({**LABELS, "reason": "tls"}, 3)],
    }


def test_the_last_checkpoint_has_flinks_names_and_an_age() -> None:
    coordinator = Coordinator()
    body = Submission.of_graph(keyed_graph()).to_bytes()
    point = RestorePoint("/somewhere/savepoint-1-attempt-0")
    record = coordinator.dispatcher.submit(Submission.from_bytes(body), 10.0, point)

    def of_job(now: float) -> dict[str, float]:
        scope = "flink_jobmanager_job_"
        exported = coordinator.exported(now)
        values = {name: samples[0][1] for name, samples in exported.items() if samples}
        return {
            name.removeprefix(scope): value
            for name, value in values.items()
            if "heckpoint" in name or "Data" in name
        }

    before = of_job(11.0)
    assert before["lastCheckpointDuration"] == before["lastCheckpointSize"] == -1
    assert before["lastCompletedCheckpointId"] == -1
    assert "flinknet_coordinator_last_checkpoint_age_seconds" not in before
    books = record.checkpoints
    books.attempt_runs([(0, 0)], (), 11.0)
    books.trigger_savepoint(CheckpointKind.SAVEPOINT, 12.0)
    assert of_job(12.0)["numberOfInProgressCheckpoints"] == 1
    report = SubtaskReport(state_bytes=100, processed_bytes=10, persisted_bytes=1)
    books.acknowledge(1, (0, 0), report)
    books.completed(1, 12.5)
    assert of_job(20.0) == {
        "totalNumberOfCheckpoints": 1,
        "numberOfCompletedCheckpoints": 1,
        "numberOfFailedCheckpoints": 0,
        "numberOfInProgressCheckpoints": 0,
        "lastCompletedCheckpointId": 1,
        "lastCheckpointDuration": 500,
        "lastCheckpointSize": 100,
        "lastCheckpointFullSize": 100,
        "lastCheckpointProcessedData": 10,
        "lastCheckpointPersistedData": 1,
        "lastCheckpointRestoreTimestamp": 10_000,
        "flinknet_coordinator_last_checkpoint_age_seconds": 8.0,
    }


def test_a_job_runs_for_as_long_as_its_attempt_does() -> None:
    coordinator = Coordinator()
    body = Submission.of_graph(keyed_graph()).to_bytes()
    record = coordinator.dispatcher.submit(Submission.from_bytes(body), 10.0)
    labels = {**LABELS, "job_id": record.job_id, "job_name": "sums"}
    assert coordinator.exported(11.0)["flink_jobmanager_job_uptime"] == [(labels, 0.0)]
    for worker_id in record.execution.workers:
        coordinator.dispatcher.receive(worker_id, Opened(record.job_id, 0), 11.0)
    exported = coordinator.exported(12.5)
    assert exported["flink_jobmanager_job_uptime"] == [(labels, 2_500.0)]
    assert exported["flink_jobmanager_job_numRestarts"] == [(labels, 0)]
    assert exported["flink_jobmanager_job_fullRestarts"] == [(labels, 0)]


def test_a_job_is_down_from_its_failure_until_it_runs_again() -> None:
    coordinator = Coordinator()
    body = Submission.of_graph(keyed_graph()).to_bytes()
    record = coordinator.dispatcher.submit(Submission.from_bytes(body), 10.0)

    def downtime(now: float) -> float:
        [(_, value)] = coordinator.exported(now)["flink_jobmanager_job_downtime"]
        return value

    assert downtime(11.0) == 0, "it has not failed"
    for state, at in ((JobState.RUNNING, 12.0), (JobState.FAILING, 20.0)):
        record.state_since[state] = at
    assert not record.execution.is_ending
    assert downtime(22.5) == 2_500
    record.state_since[JobState.RUNNING] = 23.0
    assert downtime(24.0) == 0
    record.state_since[JobState.FAILING] = 30.0
    for worker_id in record.execution.workers:
        coordinator.dispatcher.receive(worker_id, Opened(record.job_id, 0), 31.0)
    assert record.state is JobState.RUNNING
    assert downtime(32.0) == 0


def test_a_job_that_has_ended_is_not_exported() -> None:
    coordinator = Coordinator()
    body = Submission.of_graph(keyed_graph()).to_bytes()
    record = coordinator.dispatcher.submit(Submission.from_bytes(body), 0.0)
    coordinator.dispatcher.worker_exited("worker-0", "was killed", 1.0)
    coordinator.dispatcher.worker_exited("worker-1", "was killed", 1.0)
    assert record.ended_at is not None
    exported = coordinator.exported(2.0)
    assert exported["flink_jobmanager_numRunningJobs"] == [(LABELS, 0)]
    assert exported["flinknet_coordinator_workers"] == [({**LABELS, "state": "LOST"}, 2)]
    assert not any("_job_" in name for name in exported)


def test_reports_have_an_age() -> None:
    coordinator = Coordinator()
    report = StatisticsReport(0, pack_statistics(worker(), 10**6))
    coordinator.store.take("worker-0", report, 2.0)
    [age] = coordinator.exported(4.5)["flinknet_coordinator_report_age_seconds"]
    assert age == ({**LABELS, "tm_id": "worker-0"}, 2.5)


def test_flinks_rest_has_the_same_values() -> None:
    coordinator = Coordinator()
    body = Submission.of_graph(keyed_graph()).to_bytes()
    record = coordinator.dispatcher.submit(Submission.from_bytes(body), 0.0)
    exported = coordinator.exported(1.0)
    values = cluster_values(coordinator.dispatcher)
    assert values["taskSlotsAvailable"] == 2
    for name, value in values.items():
        assert exported[f"flink_jobmanager_{name}"] == [(LABELS, value)]
    values = job_values(record, 1.0)
    assert values["numRestarts"] == 0
    for name, value in values.items():
        assert exported[f"flink_jobmanager_job_{name}"][0][1] == value

"""When a job is persisted."""

from __future__ import annotations

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import Cancel, Deploy, Message
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from tests.unit.cluster.coordinator.jobs.dispatched import CONFIG, WORKERS, Cluster


class States:
    """A repository that lists the saved states of jobs, or fails to save them."""

    def __init__(self, failure: str | None = None) -> None:
        self.failure = failure
        self.saved: list[str] = []
        self.sent: list[list[tuple[str, Message]]] = []
        """The messages to workers that had been sent before each call of ``save``."""
        self.forgotten: list[str] = []
        self.cluster = Cluster(repository=self)

    def save(self, record: JobRecord) -> str | None:
        self.saved.append(record.state.value)
        self.sent.append(list(self.cluster.sent))
        return self.failure

    def forget(self, job_id: str) -> None:
        self.forgotten.append(job_id)


def test_a_job_is_saved_once_for_each_phase_and_before_workers_hear_of_it() -> None:
    states = States()
    cluster = states.cluster
    record = cluster.submit()
    assert (states.saved, states.sent) == (["DEPLOYING"], [[]])
    assert cluster.sent == [(one, Deploy(record.job_id, 0)) for one in WORKERS]
    cluster.open(record)
    assert states.saved == ["DEPLOYING"], "a successor treats both alike"
    cluster.finish(record)
    assert states.saved == ["DEPLOYING", "FINISHING", "FINISHED"]


def test_an_attempt_whose_number_is_not_saved_does_not_run() -> None:
    states = States("the disk is full")
    record = states.cluster.submit()
    assert record.state is JobState.FAILING
    assert record.execution.cause is not None
    assert "the start of attempt 0: the disk is full" in record.execution.cause.message
    assert not any(isinstance(message, Deploy) for _, message in states.cluster.sent)
    assert all(isinstance(message, Cancel) for _, message in states.cluster.sent)


def test_the_end_of_the_coordinator_is_not_saved_as_the_end_of_its_jobs() -> None:
    states = States()
    record = states.cluster.running()
    states.cluster.dispatcher.stop(FailureCause.of_coordinator(1, "stops"), 0.0)
    assert record.state is JobState.FAILING
    assert states.saved == ["DEPLOYING"]


def test_a_forgotten_job_is_removed() -> None:
    states = States()
    first = states.cluster.running()
    states.cluster.finish(first)
    assert states.forgotten == []
    for _ in range(CONFIG.jobs_retained + 1):
        states.cluster.finish(states.cluster.running())
    assert states.forgotten[0] == first.job_id

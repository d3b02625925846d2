"""The reports of workers about their subtasks, late and malformed ones among them."""

from __future__ import annotations

import pytest

from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    Failed,
    Opened,
    Progress,
    Released,
    Settled,
)
from flinknet.errors import (
    RemoteProtocolError,
)
from tests.unit.cluster.coordinator.jobs.dispatched import (
    CONFIG,
    RESULT,
    WORKERS,
    Cluster,
    Parted,
    failed,
)


def test_progress_is_summed_over_the_subtasks_of_a_vertex(cluster: Cluster) -> None:
    record = cluster.running()
    rows = [[0, 0, 7, 7, 0, 70, 0, 9, 1], [1, 0, 3, 0, 30, 0, 8, 2, 0]]
    cluster.say("worker-0", Progress(record.job_id, 0, rows))
    cluster.say("worker-1", Progress(record.job_id, 0, [[1, 1, 4, 0, 40, 0, 1, 8, 1]]))
    source, sink = record.status(cluster.now)["vertices"]
    assert (source["records_in"], source["records_out"], source["bytes_out"]) == (7, 7, 70)
    assert (sink["records_in"], sink["records_out"], sink["bytes_in"]) == (7, 0, 70)
    times = [sink[f"{state}_time_ms"] for state in ("idle", "busy", "backpressured")]
    assert times == [9, 10, 1]


def test_the_numbers_of_a_finished_subtask_are_final(cluster: Cluster) -> None:
    record = cluster.running()
    result = {**RESULT, "collected": b""}
    cluster.dispatcher.take_result(record, record.present, (0, 0), result, cluster.now)
    cluster.say("worker-0", Progress(record.job_id, 0, [[0, 0, 1, 1, 1, 1, 1, 1, 1]]))
    assert record.status(cluster.now)["vertices"][0]["records_in"] == RESULT["records_in"]


def test_messages_of_unknown_jobs_and_attempts_are_dropped(cluster: Cluster) -> None:
    record = cluster.running()
    cluster.say("worker-0", Opened("no-such-job", 0))
    cluster.say("worker-0", Released(record.job_id, 7))
    assert record.execution.state is JobState.RUNNING
    assert cluster.sent == []


@pytest.mark.parametrize(
    ("vertex", "index", "cause"),
    [(9, 0, {}), (0, 0, {}), (0, 0, {"gravity": "WORSE"}), (-1, -1, {"gravity": "CAUSE"})],
)
def test_a_malformed_failure_breaks_the_protocol(
    cluster: Cluster, vertex: int, index: int, cause: dict[str, str]
) -> None:
    record = cluster.running()
    worker_id = record.execution.worker_of((0, 0))
    with pytest.raises(RemoteProtocolError):
        cluster.say(worker_id, Failed(record.job_id, 0, vertex, index, cause))


@pytest.mark.parametrize(
    "rows",
    [[1], [[0]], [[0, 0, *range(6)]], [[0, 0, *range(8)]], [[0, 0, "1", 2, 3, 4, 5, 6, 7]]],
)
def test_malformed_progress_breaks_the_protocol(cluster: Cluster, rows: list[object]) -> None:
    record = cluster.running()
    with pytest.raises(RemoteProtocolError, match="Progress"):
        cluster.say("worker-0", Progress(record.job_id, 0, rows))


def test_a_worker_reports_its_own_subtasks_only(cluster: Cluster) -> None:
    record = cluster.running()
    owner = record.execution.worker_of((0, 0))
    (other,) = set(WORKERS) - {owner}
    cause = FailureCause(CauseRank.CAUSE, other, 101, "ValueError", "boom").to_dict()
    with pytest.raises(RemoteProtocolError, match="does not run subtask"):
        cluster.say(other, Failed(record.job_id, 0, 0, 0, cause))


@pytest.mark.parametrize("worker_id", WORKERS)
def test_late_messages_of_an_earlier_attempt_change_nothing(
    retrying: Cluster, worker_id: str
) -> None:
    record = retrying.running()
    late_failure = failed(record, worker_id, CauseRank.CAUSE, "late")
    retrying.fail(record)
    earlier, now = record.present, retrying.now
    retrying.dispatcher.starts.begin_attempt(record, now)
    retrying.open(record)
    before = [attempt.status(now) for attempt in record.attempts], record.status(now)
    free = retrying.free_slots()
    for message in (
        Opened(record.job_id, 0),
        Progress(record.job_id, 0, [[0, 0, 7, 7, 0, 70, 0, 9, 1]]),
        late_failure,
        Settled(record.job_id, 0, {}),
        Released(record.job_id, 0),
    ):
        retrying.say(worker_id, message)
    result = {**RESULT, "collected": bytes(CONFIG.collect_bytes_max)}
    retrying.dispatcher.take_result(record, earlier, (0, 0), result, now)
    assert ([attempt.status(now) for attempt in record.attempts], record.status(now)) == before
    assert (retrying.sent, retrying.free_slots()) == ([], free)
    assert earlier.collected_bytes == 0


def test_results_of_a_restarted_region_do_not_count(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    for subtask in ((0, 0), (2, 0)):
        cluster.finish_subtask(record, subtask)
    cluster.right(record, 0)
    assert set(record.present.results) == {(0, 0)}
    cluster.reopened(record, 1)
    row = [*range(9)]
    cluster.say("worker-0", Progress(record.job_id, 0, [[2, 0, *row[2:]]]))
    assert (2, 0) not in record.present.counters, "a late word of the part before"
    cluster.say("worker-0", Progress(record.job_id, 1, [[2, 0, *row[2:]]]))
    assert (2, 0) in record.present.counters
    late = FailureCause(CauseRank.CAUSE, "worker-0", 100, "ValueError", "late", "right (1/2)")
    cluster.say("worker-0", Failed(record.job_id, 0, 3, 0, late.to_dict()))
    assert record.state is JobState.RUNNING

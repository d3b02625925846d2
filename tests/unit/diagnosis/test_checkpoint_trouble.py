"""Checkpoints that suffer from backpressure, and its causes."""

from __future__ import annotations

from flinknet.diagnosis.checkpoint_reading import CheckpointReading
from flinknet.diagnosis.diagnosis import diagnose
from flinknet.diagnosis.finding import Finding, FindingKind
from tests.unit.diagnosis.checkpoints import checkpoint, part
from tests.unit.diagnosis.jobs import Job, pipeline

CHECKPOINT = FindingKind.CHECKPOINT


def findings(job: Job, *checkpoints: CheckpointReading) -> tuple[Finding, ...]:
    readings = job.readings()._replace(checkpoints=checkpoints)
    return diagnose(job.topology, readings).findings


def slow_sink() -> Job:
    job = Job(pipeline(1, 1, 1)).task(0, waits=0.9, busy=0.1).task(1, waits=0.9)
    return job.task(2, busy=1.0)


def slow_checkpoint() -> CheckpointReading:
    parts = {
        (0, 0): part(0.1),
        (1, 0): part(6.0, 0.5, processed_bytes=2_000_000),
        (2, 0): part(9.0),
    }
    return checkpoint(parts, 9.2)


def test_a_checkpoint_is_linked_to_what_holds_its_barriers_up() -> None:
    cause, found = findings(slow_sink(), slow_checkpoint())
    assert (cause.kind, found.kind) == (FindingKind.SLOW_OPERATOR, CHECKPOINT)
    assert found.sentence == (
        "checkpoint 7 took 9.2 s: its barriers waited for 6.4 s in front of Map 1 (1/1), because "
        "Sink is the bottleneck: it is slower than its input"
    )
    assert found.culprit == cause.culprit
    assert (found.severity, found.throughput) == (cause.severity, cause.throughput)
    assert (found.lost, found.lost_s) == ((), 0.0), "tasks have lost their time to the cause"
    assert found.evidence == (
        (
            "Map 1 (1/1): its first barrier came after 6.00 s and the last one 0.50 s later; "
            "2.0 MB were processed in between, 0.0 MB stored"
        ),
        (
            "Sink (1/1): its first barrier came after 9.00 s and the last one 0.00 s later; "
            "0.0 MB were processed in between, 0.0 MB stored"
        ),
        (
            "Source (1/1): its first barrier came after 0.10 s and the last one 0.00 s later; "
            "0.0 MB were processed in between, 0.0 MB stored"
        ),
        (
            "barriers wait for all data in front of them: in unaligned checkpoints they overtake "
            "it, and buffer debloating reduces it"
        ),
    )


def test_a_quick_checkpoint_is_no_finding() -> None:
    quick = checkpoint({(0, 0): part(), (1, 0): part(0.4), (2, 0): part(1.2)}, 1.3)
    assert [one.kind for one in findings(slow_sink(), quick)] == [FindingKind.SLOW_OPERATOR]


def test_a_slow_checkpoint_of_a_healthy_job_is_slow_by_itself() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, busy=0.5).task(1, busy=0.5).task(2, busy=0.5)
    assert findings(job, slow_checkpoint()) == ()


def test_a_checkpoint_that_was_given_up_says_so_and_who_was_missing() -> None:
    late = checkpoint({(0, 0): part(0.2)}, 10.0, has_expired=True)
    _, found = findings(slow_sink(), checkpoint({}, 1.0, number=8, is_under_way=True), late)
    assert found.sentence.startswith(
        "checkpoint 7 was given up after 10.0 s: its barriers waited for 9.8 s in front of Map 1"
    )
    assert found.evidence[0] == "Map 1 (1/1) has not taken part"
    assert "1 of the last 2 checkpoints were given up" in found.evidence


def test_one_that_is_under_way_counts_for_as_long_as_it_has_been() -> None:
    under_way = checkpoint({}, 8.0, is_under_way=True, finished={(0, 0)})
    _, found = findings(slow_sink(), under_way)
    assert found.sentence.startswith(
        "checkpoint 7 has been under way for 8.0 s: its barriers have waited for 8.0 s in front"
    )
    _, found = findings(slow_sink(), under_way._replace(reports={(1, 0): part(6.0)}))
    assert "Source (1/1) had finished" in found.evidence


def test_a_source_that_waits_for_a_buffer_begins_late() -> None:
    late = checkpoint({(0, 0): part(4.0), (1, 0): part(4.1), (2, 0): part(4.2)}, 4.3)
    _, found = findings(slow_sink(), late)
    assert found.sentence.startswith(
        "checkpoint 7 took 4.3 s: its trigger waited for 4.0 s until Source (1/1) was free, because"
    )
    _, found = findings(slow_sink(), checkpoint({}, 5.0, is_under_way=True))
    assert "its trigger has waited for 5.0 s until Source (1/1) was free" in found.sentence


def test_in_flight_data_that_is_most_of_a_checkpoint_is_told_by_where_it_waited() -> None:
    heavy = part(0.1, 0.1, persisted_bytes=40_000_000, state_bytes=41_000_000, unaligned=True)
    unaligned = checkpoint({(0, 0): part(), (1, 0): heavy, (2, 0): part(0.2)}, 0.5)
    cause, found = findings(slow_sink(), unaligned)
    assert found.culprit == cause.culprit
    assert found.sentence == (
        "checkpoint 7 took 0.5 s and holds 40.0 MB of in-flight data in addition to 1.0 MB of "
        "state; 40.0 MB of it waited at Map 1 (1/1), because Sink is the bottleneck: it is slower "
        "than its input"
    )
    light = heavy._replace(persisted_bytes=900_000)
    few = unaligned._replace(reports={(1, 0): light, (0, 0): part(), (2, 0): part()})
    assert [one.kind for one in findings(slow_sink(), few)] == [FindingKind.SLOW_OPERATOR]
    elsewhere = Job(pipeline(1, 1, 1)).task(0).task(1).task(2).worker("worker-1", silent_s=9.0)
    assert [one.kind for one in findings(elsewhere, unaligned)] == [FindingKind.SILENT_WORKER]
    healthy = Job(pipeline(1, 1, 1)).task(0, busy=0.5)
    assert findings(healthy, unaligned) == ()


def test_the_finding_stands_behind_its_cause_and_not_behind_a_worse_one() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, waits=0.9).task(1, busy=1.0).task(2, busy=0.1)
    job.held_up("worker-1", "else", 1.0).task(0, 0, waits=0.9, worker="worker-0")
    job.task(2, busy=0.9, worker="worker-1").worker("worker-1", silent_s=9.0)
    stuck = checkpoint({(0, 0): part(), (1, 0): part(5.0), (2, 0): part(5.1)}, 6.0)
    kinds = [one.kind for one in findings(job, stuck)]
    assert kinds == [FindingKind.SILENT_WORKER, FindingKind.SLOW_OPERATOR, CHECKPOINT]


def test_a_barrier_in_front_of_a_task_of_a_silent_worker_waits_for_the_worker() -> None:
    job = Job(pipeline(1, 1)).task(0).task(1, worker="worker-1").worker("worker-1", silent_s=9.0)
    stuck = checkpoint({(0, 0): part()}, 9.0, is_under_way=True)
    cause, found = findings(job, stuck)
    assert (cause.kind, found.kind) == (FindingKind.SILENT_WORKER, CHECKPOINT)


def test_a_slow_link_is_to_blame_for_the_barriers_that_travel_over_it() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9).task(1, worker="worker-1")
    late = checkpoint({(0, 0): part(), (1, 0): part(8.0)}, 8.1)
    cause, found = findings(job, late)
    assert (cause.kind, found.kind) == (FindingKind.SLOW_LINK, CHECKPOINT)
    assert "in front of Sink (1/1), because the connection from worker" in found.sentence

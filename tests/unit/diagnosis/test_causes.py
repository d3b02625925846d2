"""Situations, and the culprits that are named."""

from __future__ import annotations

from random import Random

import pytest

from flinknet.diagnosis.causes import Causes
from flinknet.diagnosis.finding import Finding, FindingKind, TaskName
from flinknet.diagnosis.topology import Exchange, Topology, Vertex
from flinknet.diagnosis.wait_graph import WaitGraph
from flinknet.metrics.garbage_totals import GarbageTotals, GenerationTotals
from flinknet.metrics.worker_statistics import HeldUp
from tests.unit.diagnosis.jobs import Job, pipeline


def findings(job: Job) -> list[Finding]:
    readings = job.readings()
    return Causes(job.topology, readings, WaitGraph(job.topology, readings)).findings()


def only(job: Job) -> Finding:
    (finding,) = findings(job)
    return finding


def culprits(finding: Finding) -> list[str]:
    return [task.name for task in finding.culprit.tasks]


def test_nobody_is_named_while_all_are_busy_and_none_waits() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, busy=1.0).task(1, busy=0.9, waits=0.1).task(2, busy=0.8)
    assert findings(job) == []


def test_a_wait_no_longer_than_a_refresh_is_a_spike() -> None:
    job = Job(pipeline(1, 1), refresh_s=2.0).task(0, waits=0.2).task(1, busy=1.0)
    assert findings(job) == []
    job = Job(pipeline(1, 1), refresh_s=1.9).task(0, waits=0.2).task(1, busy=1.0)
    assert only(job).kind is FindingKind.SLOW_OPERATOR


def test_a_slow_sink_is_named_with_what_everybody_lost_to_it() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, waits=0.9, busy=0.1).task(1, waits=0.9).task(2, busy=1.0)
    finding = only(job)
    assert finding.kind is FindingKind.SLOW_OPERATOR
    assert culprits(finding) == ["Sink (1/1)"]
    assert [one.task.name for one in finding.lost] == ["Source (1/1)", "Map 1 (1/1)"]
    assert [one.seconds for one in finding.lost] == pytest.approx([9.0, 9.0])
    assert finding.lost_s == pytest.approx(18.0)
    assert finding.severity == pytest.approx(0.9)
    assert all(one.is_ongoing for one in finding.lost)
    assert finding.throughput.records_in_per_s == 100.0
    assert finding.sentence == "Sink is the bottleneck: it is slower than its input"
    assert finding.evidence[0] == (
        "Sink (1/1) was busy 100%, backpressured 0% and idle 0% of 10.0 s; 100 records/s in, "
        "100 out"
    )


def test_a_slow_operator_in_the_middle_is_named_and_not_the_one_behind_it() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, waits=0.9).task(1, busy=1.0).task(2, busy=0.1)
    assert culprits(only(job)) == ["Map 1 (1/1)"]


def test_two_culprits_share_the_blame() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, waits=1.0).task(1, busy=0.5, waits=0.5).task(2, busy=1.0)
    one, other = findings(job)
    assert {culprits(one)[0], culprits(other)[0]} == {"Map 1 (1/1)", "Sink (1/1)"}
    assert one.lost[0].seconds == other.lost[0].seconds == pytest.approx(5.0)


def test_two_slow_sinks_are_named_beside_each_other() -> None:
    vertices = [Vertex(number, name, 1, "") for number, name in enumerate(("Source", "A", "B"))]
    exchanges = [Exchange(0, target, "REBALANCE", (range(1),)) for target in (1, 2)]
    job = Job(Topology(vertices, exchanges)).task(0, waits=0.9)
    job.task(1, busy=0.9).task(2, busy=0.9)
    assert {culprits(one)[0] for one in findings(job)} == {"A (1/1)", "B (1/1)"}


def test_skew_by_key_names_the_subtask_and_its_key_groups() -> None:
    job = Job(pipeline(1, 3)).task(0, waits=0.8, queues={0: 1, 1: 9, 2: 1})
    job.task(1, 0, busy=0.1, records=(100, 0)).task(1, 2, busy=0.1, records=(100, 0))
    job.task(1, 1, busy=1.0, records=(9000, 0), key_groups={7: 90, 8: 5, 9: 5})
    finding = only(job)
    assert finding.kind is FindingKind.SKEW_BY_KEY
    assert culprits(finding) == ["Sink (2/3)"]
    assert finding.culprit.key_groups == (7,)
    assert finding.sentence == (
        "Sink (2/3) gets most of the records of key group 7: the keys are skewed"
    )
    assert "2 other subtasks: 10% busy and 10 records/s on average" in finding.evidence


def test_one_slow_subtask_among_equals_is_not_skew() -> None:
    job = Job(pipeline(1, 2)).task(0, waits=0.8, queues={0: 1, 1: 9})
    job.task(1, 0, busy=0.1, records=(990, 0)).task(1, 1, busy=1.0, records=(1000, 0))
    finding = only(job)
    assert (finding.kind, culprits(finding)) == (FindingKind.SLOW_OPERATOR, ["Sink (2/2)"])


def test_skew_by_source_names_the_source_too() -> None:
    job = Job(pipeline(2, 2, names="FORWARD", pointwise=True))
    job.task(0, 0, waits=0.8, records=(9000, 9000)).task(0, 1, records=(100, 100))
    job.task(1, 0, busy=1.0, records=(9000, 0)).task(1, 1, busy=0.1, records=(100, 0))
    finding = only(job)
    assert (finding.kind, culprits(finding)) == (FindingKind.SKEW_BY_SOURCE, ["Sink (1/2)"])
    assert finding.sentence == (
        "Sink (1/2) gets most of the records, because Source (1/2) makes most of them"
    )


def test_a_hot_subtask_without_keys_or_uneven_sources_is_slow() -> None:
    job = Job(pipeline(1, 2, names="CUSTOM")).task(0, waits=0.8, queues={0: 9})
    job.task(1, 0, busy=1.0, records=(9000, 0)).task(1, 1, records=(100, 0))
    assert only(job).kind is FindingKind.SLOW_OPERATOR


def test_who_multiplies_records_is_named_and_not_who_has_to_work_them_off() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, waits=0.9).task(1, waits=0.9, records=(10, 10_000))
    job.task(2, busy=1.0, records=(10_000, 0))
    finding = only(job)
    assert (finding.kind, culprits(finding)) == (FindingKind.AMPLIFICATION, ["Map 1 (1/1)"])
    assert finding.sentence.startswith("Map 1 makes 1,000 records of each record that it reads")
    assert finding.throughput.records_out_per_s == 1000.0


def test_a_slow_link_lies_between_one_who_waits_and_one_who_is_idle() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9).task(1, busy=0.05, worker="worker-1")
    finding = only(job)
    assert finding.kind is FindingKind.SLOW_LINK
    assert finding.culprit.worker_ids == ("worker-0", "worker-1")
    assert finding.lost[0].seconds == pytest.approx(9.0)
    assert any(
        "10 buffers queued for the connection to 127.0.0.1:1" in it for it in finding.evidence
    )


def test_who_is_idle_in_the_same_process_is_to_blame_itself() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9).task(1, busy=0.05)
    finding = only(job)
    assert (finding.kind, culprits(finding)) == (FindingKind.SLOW_OPERATOR, ["Sink (1/1)"])


@pytest.mark.parametrize("end", [0, 1])
def test_a_starved_pool_is_one_that_could_use_more_buffers_than_there_are(end: int) -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9, starved=end == 0)
    job.task(1, busy=0.05, starved=end == 1, worker="worker-1")
    for worker in ("worker-0", "worker-1"):
        job.worker(worker, segments_free=0)
    finding = only(job)
    assert finding.kind is FindingKind.STARVED_POOL
    assert culprits(finding) == [["Source (1/1)", "Sink (1/1)"][end]]
    assert "raise network.network_memory_bytes" in finding.sentence
    assert "the pool of its partition has 3 buffers, and could use 8" in finding.evidence


def test_a_blocked_loop_is_named_with_who_blocks_it_and_where() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.6).task(1, busy=0.6, worker="worker-1")
    job.held_up("worker-1", "Sink (1/1)", 0.6, "sleep (job.py:7)")
    finding = only(job)
    assert (finding.kind, culprits(finding)) == (FindingKind.BLOCKED_LOOP, ["Sink (1/1)"])
    assert finding.sentence == (
        "Sink (1/1) has blocked the event loop of worker worker-1 for 6.00 of 10.0 s"
    )
    assert finding.evidence == ("Sink (1/1): 6.00 s, last seen in sleep (job.py:7)",)
    assert [one.seconds for one in finding.lost] == [pytest.approx(6.0)]


def test_pauses_of_a_whole_process_are_nobodys_fault() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.5).task(1, busy=0.2, worker="worker-1")
    job.held_up("worker-1", "", 0.5)
    finding = only(job)
    assert (finding.kind, culprits(finding)) == (FindingKind.PAUSED_PROCESS, [])
    assert finding.culprit.worker_ids == ("worker-1",)
    assert finding.evidence == ("the whole process: 5.00 s",)


def test_a_loop_that_was_held_up_is_a_finding_whoever_waits() -> None:
    job = Job(pipeline(1, 1)).task(0).task(1).held_up("worker-0", "Sink (1/1)", 0.2)
    finding = only(job)
    assert (finding.kind, finding.severity, finding.lost) == (FindingKind.BLOCKED_LOOP, 0.2, ())
    assert findings(Job(pipeline(1)).task(0).held_up("worker-0", "Source (1/1)", 0.1)) == []


def test_waits_for_many_subtasks_of_an_operator_are_added_up() -> None:
    """Each of them causes waits within the OK range, and all together cause waits for most of the
    time."""
    job = Job(pipeline(1, 16)).task(0, waits=0.96, queues=dict.fromkeys(range(16), 4))
    for index in range(16):
        job.task(1, index, busy=1.0)
    finding = only(job)
    assert (finding.kind, len(finding.culprit.tasks)) == (FindingKind.SLOW_OPERATOR, 16)
    assert finding.severity == pytest.approx(0.96)


def test_a_task_that_waits_for_many_operators_a_little_is_not_called_healthy() -> None:
    sinks = 16
    names = ["Source", *(f"Sink {number}" for number in range(1, sinks + 1))]
    vertices = [Vertex(number, name, 1, "") for number, name in enumerate(names)]
    exchanges = [Exchange(0, 1 + n, "REBALANCE", (range(1),)) for n in range(sinks)]
    job = Job(Topology(vertices, exchanges)).task(0, waits=0.96)
    for number in range(1, sinks + 1):
        job.task(number, busy=1.0)
    (finding,) = findings(job)
    assert finding.kind is FindingKind.SLOW_OPERATOR
    assert finding.lost[0].share == pytest.approx(0.06)


def test_a_subtask_that_has_cost_next_to_nothing_is_not_named() -> None:
    job = Job(pipeline(1, 2)).task(0, waits=0.9, queues={0: 20, 1: 2.5})
    job.task(1, 0, busy=1.0).task(1, 1, busy=1.0)
    assert culprits(only(job)) == ["Sink (1/2)"]


def test_a_garbage_collector_is_named_with_whose_code_it_serves_and_what_helps() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9).task(1, busy=1.0, worker="worker-1")
    job.collecting("worker-1", 0.6, "Sink (1/1)")
    finding, slow = findings(job)
    assert (finding.kind, culprits(finding)) == (FindingKind.GARBAGE_COLLECTION, ["Sink (1/1)"])
    assert finding.sentence == (
        "the garbage collector takes 60% of the time of worker worker-1, and stops all of its "
        "threads meanwhile"
    )
    assert finding.evidence[1] == (
        "generation 2: 3 collections in 10.0 s took 6.00 s and freed 4,000 objects"
    )
    assert finding.evidence[2] == "collections of 6.00 s began in Sink (1/1)"
    assert "gc.freeze()" in finding.evidence[-1]
    assert [one.seconds for one in (*finding.lost, *slow.lost)] == pytest.approx([6.0, 3.0])


def test_a_little_garbage_is_no_trouble() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9).task(1, busy=1.0).collecting("worker-0", 0.1)
    assert only(job).kind is FindingKind.SLOW_OPERATOR
    idle = Job(pipeline(1, 1)).task(0).task(1).collecting("worker-0", 0.3)
    assert (only(idle).severity, only(idle).culprit.worker_ids) == (0.3, ("worker-0",))


def test_a_task_that_holds_up_its_own_loop_is_named_once() -> None:
    """The rest of the wait, in which the loop was not seen held up, is due to the same function."""
    job = Job(pipeline(1, 1)).task(0, waits=0.9).task(1, busy=1.0, worker="worker-1")
    finding = only(job.held_up("worker-1", "Sink (1/1)", 0.6))
    assert (finding.kind, culprits(finding)) == (FindingKind.BLOCKED_LOOP, ["Sink (1/1)"])
    assert [one.seconds for one in finding.lost] == [pytest.approx(9.0)]
    other = findings(job.held_up("worker-1", "Neighbour (1/1)", 0.6))
    assert {one.kind for one in other} == {FindingKind.BLOCKED_LOOP, FindingKind.SLOW_OPERATOR}


@pytest.mark.parametrize("seed", range(40))
def test_lost_time_stands_once(seed: int) -> None:
    """For any findings, a task has lost at most the time that it has waited, and none of it
    twice."""
    chance = Random(seed)
    job = Job(pipeline(2, 3, 2))
    for vertex, subtasks in enumerate((2, 3, 2)):
        for index in range(subtasks):
            waits = chance.choice([0.0, 0.5, 0.9])
            busy = chance.uniform(0.0, 1.0 - waits)
            queues = {place: chance.choice([1, 4, 16]) for place in range(3)}
            worker = f"worker-{chance.randrange(2)}"
            job.task(vertex, index, waits=waits, busy=busy, queues=queues, worker=worker)
    task = job.topology.task_name((chance.randrange(3), 0))
    job.worker(
        "worker-0",
        held_up=(HeldUp(task, chance.uniform(0.0, 10.0), ""),),
        garbage=GarbageTotals((GenerationTotals(2, 1, chance.uniform(0.0, 10.0), 0),)),
    )
    found = findings(job)
    lost = [(one.task, finding) for finding in found for one in finding.lost]
    for task_key, reading in job.readings().tasks.items():
        name = TaskName.of(job.topology, task_key)
        seconds = sum(one.seconds for finding in found for one in finding.lost if one.task == name)
        assert seconds <= reading.backpressured_s + 1e-9
    rows = [(name, finding.culprit.operator, finding.kind) for name, finding in lost]
    assert len(rows) == len(set(rows))


def test_a_worker_that_has_reported_no_subtask_can_be_held_up() -> None:
    assert findings(Job(pipeline(1)).held_up("worker-0", "Source (1/1)", 0.9)) == []


def test_a_silent_worker_is_named_even_before_anybody_waits() -> None:
    job = Job(pipeline(1, 1)).task(0).task(1, worker="worker-1").worker("worker-1", silent_s=4.0)
    finding = only(job)
    assert (finding.kind, finding.severity) == (FindingKind.SILENT_WORKER, 1.0)
    assert finding.culprit.worker_ids == ("worker-1",)
    assert finding.sentence.startswith("worker worker-1 has not reported for 4.0 s")
    assert finding.evidence == ("it runs 1 subtask: Sink (1/1)",)
    waited = only(job.task(0, waits=0.9))
    assert [one.task.name for one in waited.lost] == ["Source (1/1)"]

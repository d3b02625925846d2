"""Sentences about culprits."""

from __future__ import annotations

from flinknet.diagnosis.sentences import Sentences
from flinknet.diagnosis.wait_graph import WaitGraph
from flinknet.metrics.worker_statistics import HeldUp
from tests.unit.diagnosis.jobs import Job, pipeline


def say(job: Job) -> Sentences:
    readings = job.readings()
    return Sentences(job.topology, readings, WaitGraph(job.topology, readings))


def test_the_whole_operator_is_named_or_some_of_its_subtasks() -> None:
    job = Job(pipeline(1, 5))
    for index in range(5):
        job.task(1, index, busy=1.0)
    tasks = [(1, index) for index in range(5)]
    assert say(job).slow(tasks)[0].startswith("Sink is the bottleneck")
    assert (
        say(job)
        .slow(tasks[:4])[0]
        .startswith("Sink (1/5), Sink (2/5), Sink (3/5) and 1 more is the bottleneck")
    )


def test_the_evidence_is_what_was_read() -> None:
    job = Job(pipeline(1, 1)).task(1, busy=0.75, waits=0.25)
    _, evidence = say(job).slow([(1, 0)])
    assert evidence[0] == (
        "Sink (1/1) was busy 75%, backpressured 25% and idle 0% of 10.0 s; 100 records/s in, "
        "100 out"
    )
    assert evidence[1] == (
        "Sink (1/1): out pool 25% and in pool 17% in use, waited for an output buffer 25% of the "
        "time: backpressured by downstream, and has not passed it on yet"
    )
    assert say(job).slow([(0, 0)])[1] == ["Source (1/1) has not been reported"]


def test_no_evidence_says_that_what_holds_others_up_is_normal() -> None:
    """The channel may be short of credit, or local without credit.

    Its producer waits in both cases.
    """
    job = Job(pipeline(1, 1)).task(0, busy=0.03, waits=0.97)
    for backlog in (4, 0):
        _, evidence = say(job.task(1, busy=1.0, backlog=backlog, credit=6)).slow([(1, 0)])
        assert "this task is the bottleneck" in evidence[1]
    _, evidence = say(job.task(1, busy=1.0, backlog=4, credit=6, held=6)).slow([(1, 0)])
    assert evidence[2] == (
        "Sink (1/1): credit of 0 announced and 6 unannounced buffers, of which 6 are held back, "
        "for a backlog of 4: the producers of 1 of 1 channels wait for credit"
    )


def test_who_multiplies_is_told_with_those_behind_it() -> None:
    job = Job(pipeline(1, 1, 1)).task(1, waits=0.9, records=(1, 500)).task(2, busy=1.0)
    sentence, evidence = say(job).amplifying([(1, 0)])
    assert sentence.startswith("Map 1 makes 500 records of each record that it reads")
    assert [line.partition(" was")[0] for line in evidence] == ["Map 1 (1/1)", "Sink (1/1)"]


def test_skew_is_told_with_the_others_beside_it() -> None:
    job = Job(pipeline(1, 2)).task(1, 0, busy=1.0).task(1, 1, busy=0.5, records=(50, 0))
    sentence, evidence = say(job).skewed_by_key([(1, 0)], [3, 4])
    assert sentence == "Sink (1/2) gets most of the records of key groups 3, 4: the keys are skewed"
    assert "1 other subtask: 50% busy and 5 records/s on average" in evidence
    sentence, _ = say(job).skewed_by_key([(1, 0), (1, 1)], [])
    assert sentence == "Sink gets most of the records: the keys are skewed"


def test_skew_by_source_names_who_makes_the_records() -> None:
    job = Job(pipeline(2, 1)).task(0, 0, records=(0, 900)).task(0, 1, records=(0, 100))
    sentence, evidence = say(job.task(1)).skewed_by_source([(1, 0)])
    assert sentence == ("Sink gets most of the records, because Source (1/2) makes most of them")
    assert evidence[1].startswith("Source (1/2) was busy")


def test_pools_are_starved_at_either_end() -> None:
    job = Job(pipeline(1, 1)).task(0).task(1, starved=True).worker("worker-0", segments_free=0)
    sentence, evidence = say(job).starved((0, 0), (1, 0))
    assert sentence == (
        "Sink (1/1) has too few network buffers: worker worker-0 has given out all of its 100 "
        "(raise network.network_memory_bytes)"
    )
    assert evidence[0] == "the pool of its partition has 3 buffers, and could use 8"


def test_a_link_is_told_with_what_waits_on_it() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.9).task(1, worker="worker-1")
    sentence, evidence = say(job).slow_link((0, 0), (1, 0))
    assert sentence.startswith("the connection from worker worker-0 to worker worker-1 is slow")
    assert evidence[2] == (
        "10 buffers queued for the connection to 127.0.0.1:1, with credit for 5; 1 in its socket"
    )
    readings = job.readings()._replace(workers={})
    _, evidence = Sentences(job.topology, readings, WaitGraph(job.topology, readings)).slow_link(
        (0, 0), (1, 0)
    )
    assert not any("on the connection" in line for line in evidence)


def test_a_silent_worker_is_told_with_what_is_on_it() -> None:
    job = Job(pipeline(1, 1)).task(0).worker("worker-0", silent_s=3.25)
    sentence, evidence = say(job).silent("worker-0", [(0, 0)])
    assert sentence == (
        "worker worker-0 has not reported for 3.2 s: its process is stopped, or something blocks "
        "its event loop"
    )
    assert evidence == ["it runs 1 subtask: Source (1/1)"]
    sentence, _ = say(job.worker("worker-0", silent_s=3.25, is_alive=True)).silent("worker-0", [])
    assert sentence == (
        "worker worker-0 has not reported for 3.2 s: its process runs, so something blocks its "
        "event loop"
    )


def test_who_held_up_a_loop_is_told_the_worst_first() -> None:
    both = (HeldUp("Map (1/1)", 2.0, "sleep (job.py:7)"), HeldUp("", 1.0, ""))
    job = Job(pipeline(1)).task(0).worker("worker-0", held_up=both)
    sentence, evidence = say(job).held_up("worker-0")
    assert sentence == "Map (1/1) has blocked the event loop of worker worker-0 for 3.00 of 10.0 s"
    assert evidence == [
        "Map (1/1): 2.00 s, last seen in sleep (job.py:7)",
        "the whole process: 1.00 s",
    ]
    paused = job.worker("worker-0", held_up=both[1:])
    assert say(paused).held_up("worker-0")[0] == (
        "the process of worker worker-0 was paused for 1.00 of 10.0 s"
    )


def test_a_garbage_collector_is_told_of_by_generation_and_by_whose_code_it_served() -> None:
    job = Job(pipeline(1, 1)).task(0).collecting("worker-0", 0.5)
    sentence, (young, old, served, _) = say(job).collecting("worker-0", 10.0)
    assert sentence.startswith("the garbage collector takes 50% of the time of worker worker-0")
    assert young.startswith("generation 0: 9 collections in 10.0 s took 0.00 s and freed 90 ")
    assert old.startswith("generation 2: 3 collections in 10.0 s took 5.00 s and freed 4,000 ")
    assert served == "collections of 5.00 s began in code of the worker itself"
    job.collecting("worker-0", 0.5, "Sink (1/1)")
    assert say(job).collecting("worker-0", 0.0)[1][2] == "collections of 5.00 s began in Sink (1/1)"

"""The waits between tasks, and the task at the end of the blame."""

from __future__ import annotations

import pytest

from flinknet.diagnosis.topology import TaskKey
from flinknet.diagnosis.wait_graph import Blame, Blamed, WaitGraph
from tests.unit.diagnosis.jobs import Job, pipeline


def graph(job: Job) -> WaitGraph:
    return WaitGraph(job.topology, job.readings())


def waits(job: Job, task: TaskKey = (0, 0)) -> dict[TaskKey, float]:
    return {wait.waited_for: wait.seconds for wait in graph(job).waits.get(task, [])}


def lost(job: Job) -> dict[Blame, dict[TaskKey, float]]:
    return graph(job).lost()


def busy(task: TaskKey) -> Blame:
    return Blame(Blamed.OPERATOR, task)


def test_who_does_not_wait_has_no_edges() -> None:
    assert waits(Job(pipeline(1, 1)).task(0, busy=1.0, waits=0.0)) == {}
    assert waits(Job(pipeline(1, 1)).task(0, busy=0.98, waits=0.02)) == {}


def test_seconds_go_to_those_who_hold_the_buffers() -> None:
    job = Job(pipeline(1, 3)).task(0, waits=0.8, queues={0: 4, 1: 2, 2: 1})
    assert waits(job) == {(1, 0): pytest.approx(6.0), (1, 1): pytest.approx(2.0)}


def test_who_holds_next_to_nothing_keeps_nobody_waiting() -> None:
    job = Job(pipeline(1, 2)).task(0, waits=0.8, queues={0: 21, 1: 2})
    assert waits(job) == {(1, 0): pytest.approx(8.0)}


def test_buffers_that_are_being_filled_count_where_there_are_no_others() -> None:
    job = Job(pipeline(1, 2)).task(0, waits=0.8, queues={0: 1, 1: 1})
    assert waits(job) == {(1, 0): pytest.approx(4.0), (1, 1): pytest.approx(4.0)}


def test_all_consumers_share_a_wait_for_which_nobody_holds_a_buffer() -> None:
    job = Job(pipeline(1, 2)).task(0, waits=0.8)
    assert waits(job) == {(1, 0): pytest.approx(4.0), (1, 1): pytest.approx(4.0)}


def test_a_queue_that_nobody_reads_is_left_out() -> None:
    assert waits(Job(pipeline(1, 1)).task(0, waits=0.8, queues={5: 9})) == {}
    assert lost(Job(pipeline(1, 1)).task(0, waits=0.8, queues={5: 9})) == {}


def test_waiters_are_the_direct_ones_the_longest_first() -> None:
    job = Job(pipeline(2, 1, 1)).task(0, 0, waits=0.5).task(0, 1, waits=0.9).task(1, waits=0.9)
    assert graph(job).waiters((1, 0)) == [(0, 1), (0, 0)]


def test_the_blame_goes_on_until_somebody_is_busy() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, waits=1.0).task(1, waits=1.0).task(2, busy=1.0)
    assert lost(job) == {busy((2, 0)): {(0, 0): pytest.approx(10.0), (1, 0): pytest.approx(10.0)}}


def test_who_is_busy_and_backpressured_passes_its_part_on() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, waits=1.0).task(1, busy=0.4, waits=0.6).task(2, busy=1.0)
    assert lost(job)[busy((1, 0))] == {(0, 0): pytest.approx(4.0)}
    assert lost(job)[busy((2, 0))] == {(0, 0): pytest.approx(6.0), (1, 0): pytest.approx(6.0)}


def test_a_wait_too_short_to_follow_is_the_tasks_own() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, waits=1.0).task(1, busy=0.98, waits=0.02).task(2)
    assert lost(job) == {busy((1, 0)): {(0, 0): pytest.approx(10.0)}}


def test_an_idle_task_explains_no_more_than_it_was_active() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.8).task(1, busy=0.5)
    transit = Blame(Blamed.TRANSIT, (1, 0), (0, 0))
    assert lost(job) == {
        busy((1, 0)): {(0, 0): pytest.approx(5.0)},
        transit: {(0, 0): pytest.approx(3.0)},
    }


def test_a_task_that_was_idle_through_most_of_a_wait_is_not_to_blame_for_any_of_it() -> None:
    """It does all the work that it gets, and a bottleneck is never idle."""
    job = Job(pipeline(1, 1)).task(0, waits=0.8).task(1, busy=0.3)
    assert lost(job) == {Blame(Blamed.TRANSIT, (1, 0), (0, 0)): {(0, 0): pytest.approx(8.0)}}


def test_a_task_that_only_idled_has_not_got_what_waits_for_it() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.8).task(1)
    assert lost(job) == {Blame(Blamed.TRANSIT, (1, 0), (0, 0)): {(0, 0): pytest.approx(8.0)}}


def test_the_pools_of_a_task_are_told_with_how_long_producers_waited_for_it() -> None:
    job = Job(pipeline(2, 2)).task(0, 0, waits=0.8, queues={0: 8, 1: 8}).task(0, 1, waits=0.5)
    job.task(1, 0, busy=1.0).task(1, 1, busy=1.0)
    assert [graph(job).usage((1, index)).waited_for for index in range(2)] == [
        pytest.approx(0.8),
        pytest.approx(0.8),
    ]
    assert graph(job).usage((0, 0)).waited_for == 0.0


def test_a_reader_without_data_is_not_waited_for_unless_it_is_in_the_same_worker() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.8)
    assert graph(job.task(1, worker="worker-1")).usage((1, 0)).waited_for == 0.0
    assert graph(job.task(1)).usage((1, 0)).waited_for == pytest.approx(0.8)


def test_an_unknown_task_is_to_blame() -> None:
    assert lost(Job(pipeline(1, 1)).task(0, waits=0.8)) == {
        busy((1, 0)): {(0, 0): pytest.approx(8.0)}
    }


def test_a_silent_worker_is_to_blame_for_all_of_it() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.8).task(1, busy=1.0, worker="worker-1")
    job.worker("worker-1", silent_s=3.0)
    silence = Blame(Blamed.SILENCE, worker_id="worker-1")
    assert lost(job) == {silence: {(0, 0): pytest.approx(8.0)}}


def test_a_loop_that_did_not_turn_comes_before_the_task_on_it() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.8).task(1, busy=1.0, worker="worker-1")
    job.held_up("worker-1", "Sink (1/1)", 0.5)
    assert lost(job) == {
        Blame(Blamed.LOOP, worker_id="worker-1"): {(0, 0): pytest.approx(5.0)},
        busy((1, 0)): {(0, 0): pytest.approx(3.0)},
    }


def test_a_loop_is_to_blame_for_no_longer_than_it_did_not_turn() -> None:
    """This holds for any number of its tasks that are waited for at the same time."""
    job = Job(pipeline(1, 4)).task(0, waits=0.8, queues=dict.fromkeys(range(4), 8))
    for index in range(4):
        job.task(1, index, busy=1.0, worker="worker-1")
    job.held_up("worker-1", "Sink (1/4)", 0.2)
    assert lost(job)[Blame(Blamed.LOOP, worker_id="worker-1")] == {(0, 0): pytest.approx(2.0)}


def test_tasks_are_compared_by_the_same_time_though_their_reports_come_at_others() -> None:
    """The job is young: one worker has reported 15 s of it, and the other 10 s."""
    job = Job(pipeline(1, 1)).task(0, waits=0.9, seconds=15.0)
    job.task(1, busy=1.0, seconds=10.0, worker="worker-1")
    assert lost(job) == {busy((1, 0)): {(0, 0): pytest.approx(13.5)}}


def test_a_task_of_no_known_worker_is_judged_by_its_times() -> None:
    job = Job(pipeline(1, 1)).task(0, waits=0.8).task(1, busy=1.0)
    readings = job.readings()._replace(workers={})
    assert set(WaitGraph(job.topology, readings).lost()) == {busy((1, 0))}

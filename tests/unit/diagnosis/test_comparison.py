"""Subtasks with more work than others."""

from __future__ import annotations

from flinknet.diagnosis.comparison import Comparison
from tests.unit.diagnosis.jobs import Job, pipeline


def comparison(job: Job) -> Comparison:
    return Comparison(job.topology, job.readings())


def test_what_is_not_known_is_left_out() -> None:
    job = Job(pipeline(1, 2)).task(1, 1)
    assert len(comparison(job).read([(1, 0), (1, 1)])) == 1


def test_the_factor_of_an_operator() -> None:
    job = Job(pipeline(1, 1, 1)).task(0, records=(10, 1000)).task(1, records=(10, 1000))
    job.task(2, records=(0, 0))
    compared = comparison(job)
    assert [compared.factor((vertex, 0)) for vertex in range(3)] == [0.0, 100.0, 0.0]


def test_the_hot_one_has_twice_as_much_as_the_median_of_the_others() -> None:
    job = Job(pipeline(1, 3)).task(1, 0, records=(200, 0)).task(1, 1, records=(100, 0))
    job.task(1, 2, records=(90, 0))
    compared = comparison(job)
    assert [compared.is_hot((1, index)) for index in range(3)] == [True, False, False]


def test_nobody_is_hot_alone_or_unknown() -> None:
    assert not comparison(Job(pipeline(1, 1)).task(1)).is_hot((1, 0))
    assert not comparison(Job(pipeline(1, 2)).task(1, 1)).is_hot((1, 0))


def test_uneven_producers_make_twice_as_much_as_the_mean_of_the_others() -> None:
    job = Job(pipeline(3, 1)).task(0, 0, records=(0, 300)).task(0, 1, records=(0, 100))
    job.task(0, 2, records=(0, 100))
    exchange = job.topology.exchanges[0]
    assert comparison(job).uneven_producers(exchange) == [(0, 0)]
    assert comparison(Job(pipeline(1, 1)).task(0)).uneven_producers(exchange) == []


def test_who_was_looked_at_for_longer_is_not_hot_because_of_it() -> None:
    """Workers report at different times.

    The report of one may cover twice as much of a young job.
    """
    job = Job(pipeline(2, 2)).task(1, 0, records=(500, 0), seconds=10.0)
    job.task(1, 1, records=(250, 0), seconds=5.0)
    job.task(0, 0, records=(0, 500), seconds=10.0).task(0, 1, records=(0, 250), seconds=5.0)
    compared = comparison(job)
    assert [compared.is_hot((1, index)) for index in range(2)] == [False, False]
    assert compared.uneven_producers(job.topology.exchanges[0]) == []
    job.task(1, 1, records=(500, 0), seconds=4.0)
    assert comparison(job).is_hot((1, 1))


def test_hot_key_groups_have_a_quarter_of_what_was_looked_at() -> None:
    job = Job(pipeline(1, 1)).task(1, key_groups={3: 50, 4: 25, 5: 24, 6: 1})
    assert comparison(job).hot_key_groups([(1, 0)]) == (3, 4)
    assert comparison(Job(pipeline(1, 1)).task(1)).hot_key_groups([(1, 0)]) == ()
    job = Job(pipeline(1, 1)).task(1, key_groups={3: 30, -1: 70})
    assert comparison(job).hot_key_groups([(1, 0)]) == (3,), "the others together are no group"


def test_a_pool_is_starved_when_it_could_be_larger_and_nothing_is_left() -> None:
    job = Job(pipeline(1, 1)).task(0, starved=True).task(1)
    assert comparison(job).starved_pools((0, 0)) == []
    job.worker("worker-0", segments_free=0)
    assert [pool.size for pool in comparison(job).starved_pools((0, 0))] == [3]
    assert comparison(job).starved_pools((1, 0)) == []
    unknown = Comparison(job.topology, job.readings()._replace(workers={}))
    assert unknown.starved_pools((0, 0)) == []

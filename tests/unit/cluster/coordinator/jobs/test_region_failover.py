"""The failed regions of a job in which other regions go on."""

from __future__ import annotations

import pytest

from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.coordinator.jobs.pipelined_region import PipelinedRegion
from flinknet.cluster.coordinator.jobs.region_failover import RegionFailover

CAUSE = FailureCause(CauseRank.CAUSE, "worker-0", 100, "ValueError", "boom", "Source")
A, B, C = frozenset({"0-0"}), frozenset({"0-1"}), frozenset({"0-2"})


def region(index: int, *consumes: str) -> PipelinedRegion:
    return PipelinedRegion(f"0-{index}", frozenset({(0, index), (1, index)}), frozenset(consumes))


@pytest.fixture
def failover() -> RegionFailover:
    return RegionFailover([region(0), region(1), region(2)], enabled=True)


def deadline_of(failover: RegionFailover) -> float | None:
    """Return the deadline; a call keeps a type checker from believing that it never changes."""
    return failover.deadline


def test_a_failure_of_some_regions_concerns_only_them(failover: RegionFailover) -> None:
    assert failover.regions_of([(0, 1), (1, 1)]) == B
    assert failover.concerns_some(A)
    assert failover.concerns_some(A | B)
    assert not failover.concerns_some(A | B | C), "all of it"
    assert not failover.concerns_some(frozenset()), "none in particular"


def test_failed_regions_are_not_running_regions(failover: RegionFailover) -> None:
    failover.give_up(A | B, [(0, 0)], CAUSE, 1.0, 6.0)
    assert not failover.concerns_some(C), "it was the last one"
    assert failover.regions_of([(0, 0), (0, 2)]) == C


@pytest.mark.parametrize("how", ["not wanted", "a region reads what another one has completed"])
def test_otherwise_each_concerns_all(how: str) -> None:
    consumed = () if how == "not wanted" else ("0-0",)
    regions = [region(0), region(1, *consumed)]
    failover = RegionFailover(regions, enabled=how != "not wanted")
    assert not failover.concerns_some(A)


def test_regions_are_given_up_released_and_redeployed(failover: RegionFailover) -> None:
    failover.give_up(A, failover.subtasks_of(A), CAUSE, 1.0, 6.0)
    assert failover.deadline == 6.0
    assert failover.is_given_up((1, 0))
    assert not failover.is_given_up((1, 1))
    failure = failover.take_failure()
    assert failure is not None
    assert (failure.regions, failure.cause, failure.at) == (A, CAUSE, 1.0)
    assert failover.take_failure() is None, "it is told once"
    failover.released([(0, 0), (1, 1)])
    assert failover.has_let_go((0, 0))
    assert not failover.has_let_go((1, 0))
    assert not failover.is_released
    failover.released([(1, 0)])
    assert failover.is_released
    assert failover.deadline is None
    failover.redeployed(A)
    assert not failover.given_up
    assert failover.concerns_some(A)


def test_the_time_for_the_first_counts_for_those_that_follow(failover: RegionFailover) -> None:
    failover.give_up(A, [(0, 0)], CAUSE, 1.0, 6.0)
    failover.give_up(B, [(0, 1)], CAUSE, 2.0, 7.0)
    assert deadline_of(failover) == 6.0
    assert failover.cause is CAUSE
    failover.end()
    assert deadline_of(failover) is None
    assert not failover.given_up
    assert failover.is_released
    assert not failover.concerns_some(C)


def test_an_attempt_without_running_subtasks_awaits_nothing(failover: RegionFailover) -> None:
    """Its worker is lost."""
    failover.give_up(A, [], CAUSE, 1.0, 6.0)
    assert failover.is_released
    assert failover.deadline is None

"""Barriers of several channels, at least once."""

from __future__ import annotations

import pytest

from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.checkpoint.barrier_tracker import PENDING_MAX, BarrierTracker
from flinknet.errors import RemoteProtocolError
from flinknet.wire.events import CheckpointOptions
from tests.unit.checkpoint.barrier_inputs import (
    ALIGNED,
    ALTERNATING,
    AT_LEAST_ONCE,
    UNALIGNED,
    Inputs,
)


def inputs_of(channels: int) -> Inputs:
    return Inputs(channels, BarrierTracker)


def barrier(inputs: Inputs, number: int, *channels: int) -> None:
    inputs.barrier(number, *channels, options=AT_LEAST_ONCE)


def taken(*numbers: int) -> list[str]:
    return [f"{what} {number}" for number in numbers for what in ("take", "complete")]


def aborted(number: int) -> str:
    return f"abort {number} CANCELLATION_BARRIER"


def pending(inputs: Inputs) -> list[int]:
    """Return the ids of the remembered checkpoints, aborted or not."""
    assert isinstance(inputs.barriers, BarrierTracker)
    return list(inputs.barriers._pending)


@pytest.mark.parametrize("numbers", [(1, 2, 3, 4, 5, 6), (1, 3, 4, 6, 7, 10)])
def test_one_channel(numbers: tuple[int, ...]) -> None:
    """L1."""
    inputs = inputs_of(1)
    inputs.data(0)
    for number in numbers:
        barrier(inputs, number, 0)
        inputs.data(0, 0)
    assert inputs.told == taken(*numbers)
    assert inputs.barriers.deadline_ms is None


def test_a_checkpoint_that_is_complete_drops_all_before_it() -> None:
    """L3: nothing is blocked; checkpoint 3 is skipped, as one of its barriers never comes."""
    inputs = inputs_of(3)
    barrier(inputs, 1, 0, 1)
    assert (inputs.told, inputs.blocked) == ([], [])
    barrier(inputs, 1, 2)
    barrier(inputs, 2, 2, 1, 0)
    barrier(inputs, 3, 0, 2)
    barrier(inputs, 4, 0, 2, 1)
    barrier(inputs, 3, 1)  # too late
    assert inputs.told == taken(1, 2, 4)
    assert not inputs.barriers.is_pending


def test_a_late_barrier_completes_an_older_checkpoint() -> None:
    """Row 57: as long as no newer checkpoint is complete."""
    inputs = inputs_of(2)
    barrier(inputs, 1, 0)
    barrier(inputs, 2, 0)
    barrier(inputs, 1, 1)
    assert inputs.told == taken(1)
    barrier(inputs, 2, 1)
    assert inputs.told == taken(2)


def test_cancel_markers_of_one_channel() -> None:
    """L4."""
    inputs = inputs_of(1)
    barrier(inputs, 1, 0)
    barrier(inputs, 2, 0)
    inputs.cancel(4, 0)
    barrier(inputs, 5, 0)
    inputs.cancel(6, 0)
    assert inputs.told == [*taken(1, 2), aborted(4), *taken(5), aborted(6)]


def test_cancel_markers_of_several_channels() -> None:
    """L4: one marker in place of a barrier is enough, at any place among the barriers."""
    inputs = inputs_of(3)
    barrier(inputs, 1, 0, 1, 2)
    inputs.cancel(2, 0)
    barrier(inputs, 2, 1, 2)
    barrier(inputs, 3, 0, 1, 2)
    barrier(inputs, 4, 0)
    inputs.cancel(4, 1)
    inputs.cancel(4, 2)
    barrier(inputs, 5, 0, 1, 2)
    barrier(inputs, 6, 0, 1)
    inputs.cancel(6, 2)
    assert inputs.told == [
        *(*taken(1), aborted(2), *taken(3), aborted(4), *taken(5), aborted(6)),
    ]
    assert pending(inputs) == []


def test_markers_that_cross_abort_each_checkpoint_once() -> None:
    """L5."""
    inputs = inputs_of(3)
    barrier(inputs, 1, 0)
    barrier(inputs, 2, 0)
    inputs.cancel(1, 1)
    assert inputs.told == [aborted(1)]
    inputs.cancel(2, 1)
    inputs.cancel(1, 2)
    inputs.cancel(2, 2)
    assert inputs.told == [aborted(2)]
    inputs.cancel(4, 0)
    inputs.cancel(3, 1)
    assert inputs.told == [aborted(4)]


def test_a_marker_aborts_what_is_older() -> None:
    """L5: the older barrier will not come on the marker's channel."""
    inputs = inputs_of(2)
    barrier(inputs, 1, 0)
    barrier(inputs, 2, 0)
    inputs.cancel(2, 1)
    assert inputs.told == [aborted(1), aborted(2)]
    barrier(inputs, 1, 1)
    assert inputs.told == []


def test_a_barrier_that_overtakes_a_marker_keeps_its_alignment() -> None:
    """L6: the alignment takes two seconds."""
    inputs = inputs_of(2)
    barrier(inputs, 1, 0)
    barrier(inputs, 2, 0)
    inputs.pass_time(2000)
    inputs.cancel(1, 1)
    barrier(inputs, 2, 1)
    assert inputs.told == [aborted(1), *taken(2)]
    assert [metrics.alignment_ms for metrics in inputs.subtask.metrics] == [2000]


def test_an_end_completes_what_only_its_channel_was_missing() -> None:
    """L7."""
    inputs = inputs_of(3)
    barrier(inputs, 1, 0, 1)
    barrier(inputs, 2, 1)
    barrier(inputs, 3, 0, 1)
    inputs.end(2)
    assert inputs.told == taken(1, 3)
    barrier(inputs, 4, 0, 1)  # two barriers are all, one by one
    assert inputs.told == taken(4)
    inputs.end(0)
    barrier(inputs, 4, 1)  # a second time, ignored
    barrier(inputs, 5, 1)
    assert inputs.told == taken(5)


def test_an_abort_behind_an_end() -> None:
    """L7: an aborted checkpoint is remembered for the remaining channels, and no longer."""
    inputs = inputs_of(3)
    inputs.end(0)
    inputs.cancel(1, 1)
    barrier(inputs, 1, 2)
    assert inputs.told == [aborted(1)]
    inputs.cancel(2, 1)
    assert pending(inputs) == [2]
    inputs.end(2, 1)
    assert inputs.told == [aborted(2)]
    assert pending(inputs) == []
    inputs.barriers.abort(3, AbortReason.COORDINATOR)
    assert inputs.told == ["abort 3 COORDINATOR"]


def test_metrics() -> None:
    """L8."""
    inputs = inputs_of(2)
    inputs.barrier_of(1)
    inputs.pass_time(3)
    barrier(inputs, 1, 0)
    inputs.data(0, 1, content=b"12345")
    inputs.pass_time(4)
    barrier(inputs, 1, 1)
    assert inputs.subtask.metrics == [(3, 4, 10, 0)]


def test_no_more_than_fifty_are_remembered() -> None:
    """Row 57."""
    inputs = inputs_of(2)
    for number in range(PENDING_MAX + 1):
        barrier(inputs, number, 0)
    barrier(inputs, 0, 1)  # forgotten
    assert inputs.told == []
    barrier(inputs, 1, 1)
    assert inputs.told == taken(1)


def test_the_coordinator_aborts_one_checkpoint() -> None:
    inputs = inputs_of(2)
    barrier(inputs, 1, 0)
    barrier(inputs, 2, 0)
    inputs.barriers.abort(2, AbortReason.COORDINATOR)
    inputs.barriers.abort(2, AbortReason.COORDINATOR)
    barrier(inputs, 1, 1)
    barrier(inputs, 2, 1)
    inputs.barriers.abort(2, AbortReason.COORDINATOR)
    inputs.barriers.abort(3, AbortReason.COORDINATOR)
    barrier(inputs, 3, 0, 1)
    assert inputs.told == ["abort 2 COORDINATOR", *taken(1), "abort 3 COORDINATOR"]


def test_a_subtask_can_decline_what_it_is_to_take() -> None:
    inputs = inputs_of(2)
    inputs.subtask.declines = inputs.barriers
    barrier(inputs, 1, 0, 1)
    assert inputs.told == ["take 1", "abort 1 DECLINED"]
    assert not inputs.barriers.is_pending


@pytest.mark.parametrize("options", [ALIGNED, ALTERNATING])
def test_a_barrier_that_blocks_does_not_keep_its_channel(options: CheckpointOptions) -> None:
    inputs = inputs_of(2)
    inputs.barriers.on_announcement(0, inputs.barrier_of(1, ALTERNATING), inputs.now)
    inputs.barrier(1, 0, options=options)
    inputs.barriers.on_time(inputs.now + 1000)
    assert (inputs.told, inputs.blocked) == ([], [])
    inputs.barrier(1, 1, options=options)
    assert inputs.told == taken(1)


def test_nothing_is_unaligned_here() -> None:
    """Row 57."""
    inputs = inputs_of(2)
    with pytest.raises(RemoteProtocolError, match="the same mode"):
        inputs.barrier(1, 0, options=UNALIGNED)


def test_the_coordinator_triggers_a_subtask_whose_inputs_have_finished() -> None:
    """Row 62."""
    inputs = inputs_of(2)
    inputs.end(0)
    inputs.barriers.on_trigger(inputs.barrier_of(1, AT_LEAST_ONCE), inputs.now)
    inputs.end(1)
    inputs.barriers.on_trigger(inputs.barrier_of(2, AT_LEAST_ONCE), inputs.now)
    inputs.barriers.on_trigger(inputs.barrier_of(2, AT_LEAST_ONCE), inputs.now)
    assert inputs.told == taken(1, 2)

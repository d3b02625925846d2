"""The state table of a subtask's part in a checkpoint, and which component closes its snapshots."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.runtime import checkpoint_part
from flinknet.runtime.checkpoint_part import (
    TRANSITIONS,
    Captured,
    CheckpointPart,
    PartEvent,
    PartState,
    Written,
)
from flinknet.wire.events import CheckpointBarrier
from tests.unit.tables import named, shown_in, way_to

BARRIER = CheckpointBarrier(1, 1_000)
CAPTURED = Captured([], None, 1.0, has_finished=False)
ALIGNMENT = AlignmentMetrics(alignment_ms=7)

DO: dict[PartEvent, Callable[[CheckpointPart], object]] = {
    PartEvent.CAPTURE: lambda part: part.capture(CAPTURED),
    PartEvent.ALIGN: lambda part: part.align(ALIGNMENT),
    PartEvent.ACKNOWLEDGE: CheckpointPart.acknowledge,
    PartEvent.REFUSE: CheckpointPart.refuse,
    PartEvent.ABORT: CheckpointPart.abort,
}


def in_state(state: PartState) -> CheckpointPart:
    part = CheckpointPart(BARRIER)
    for event in way_to(state, PartState.DUE, TRANSITIONS):
        DO[event](part)
    assert part.state is state
    return part


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(checkpoint_part.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize("event", PartEvent)
@pytest.mark.parametrize("state", PartState)
def test_every_event_in_every_state(state: PartState, event: PartEvent) -> None:
    part = in_state(state)
    if (state, event) in TRANSITIONS:
        DO[event](part)
        assert part.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(AssertionError, match=f"{event.name} must not happen"):
            DO[event](part)
        assert part.state is state


@pytest.mark.parametrize("first", [PartEvent.CAPTURE, PartEvent.ALIGN])
def test_a_part_is_written_when_it_is_captured_and_aligned(first: PartEvent) -> None:
    (second,) = {PartEvent.CAPTURE, PartEvent.ALIGN} - {first}
    part = CheckpointPart(BARRIER)
    assert DO[first](part) is None
    assert DO[second](part) == Written(BARRIER, CAPTURED, ALIGNMENT)


@pytest.mark.parametrize("state", PartState)
def test_an_abort_returns_the_unwritten_capture(state: PartState) -> None:
    part = in_state(state)
    if (state, PartEvent.ABORT) in TRANSITIONS:
        assert part.abort() is (CAPTURED if state is PartState.CAPTURED else None)
    assert part.is_final

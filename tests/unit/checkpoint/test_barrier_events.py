"""The events that concern checkpoints."""

from __future__ import annotations

import pytest

from flinknet.checkpoint.barrier_events import handle_event
from flinknet.checkpoint.barrier_handler import BarrierHandler
from flinknet.checkpoint.barrier_tracker import BarrierTracker
from flinknet.wire.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    EventAnnouncement,
    Watermark,
)
from tests.unit.checkpoint.barrier_inputs import ALTERNATING, Inputs


@pytest.mark.parametrize("kind", [BarrierHandler, BarrierTracker])
def test_they_are_handled_and_the_rest_is_left(kind: type[BarrierHandler | BarrierTracker]) -> None:
    """The end of a partition is left for other handlers, too."""
    inputs = Inputs(2, kind)
    barriers = inputs.barriers
    barrier = CheckpointBarrier(1, 990, ALTERNATING)
    assert handle_event(barriers, 0, EventAnnouncement(barrier), 991)
    inputs.channels[0].blocked = True
    assert handle_event(barriers, 0, barrier, 992)
    for other in (Watermark(1), EndOfData(drain=True), None):
        assert not handle_event(barriers, 1, other, 993)
    assert inputs.told == []
    assert handle_event(barriers, 1, CancelCheckpointMarker(1), 994)
    assert inputs.told == ["abort 1 CANCELLATION_BARRIER"]
    assert not handle_event(barriers, 1, EndOfPartition(), 995)
    inputs.channels[0].blocked = True
    assert handle_event(barriers, 0, CheckpointBarrier(2, 990, ALTERNATING), 996)
    assert inputs.told == ["take 2", "complete 2"]
    assert inputs.blocked == []

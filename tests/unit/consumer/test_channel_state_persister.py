"""The data of a channel that a checkpoint stores: from its start to the channel's barrier."""

from __future__ import annotations

import pytest

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.consumer import channel_state_persister
from flinknet.consumer.channel_state_persister import (
    BARRIERS,
    TRANSITIONS,
    ChannelStatePersister,
    PersisterEvent,
    PersisterState,
)
from flinknet.wire.events import (
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointOptions,
    Event,
)
from tests.unit.tables import named, shown_in, way_to

IDLE, AWAITING = PersisterState.IDLE, PersisterState.AWAITING_BARRIER
UNALIGNED = CheckpointOptions(alignment=Alignment.UNALIGNED)


class Arranged:
    """A persister, with a record of its answers for each checkpoint."""

    def __init__(self) -> None:
        self.persister = ChannelStatePersister()
        self.stored: list[Buffer] = []

    def start(self, checkpoint_id: int) -> bool:
        return self.persister.start(checkpoint_id, self.stored.append)

    def barrier(
        self, checkpoint_id: int, sequence: int = 0, options: CheckpointOptions = UNALIGNED
    ) -> None:
        event = CheckpointBarrier(checkpoint_id, 0, options).event()
        self.persister.on_event(event, sequence)

    @property
    def stores(self) -> bool:
        """Return whether arriving data is stored."""
        persist = self.persister.persist
        assert (persist is not None) == (self.persister.state is AWAITING)
        return persist is not None


def test_the_table_is_the_documented_one() -> None:
    assert shown_in(channel_state_persister.__doc__) == named(TRANSITIONS)


STEPS = {
    PersisterEvent.AWAIT: lambda arranged: arranged.start(5),
    PersisterEvent.BARRIER: lambda arranged: arranged.barrier(5),
    PersisterEvent.STOP: lambda arranged: arranged.persister.stop(
        5 if arranged.stores else arranged.persister._checkpoint_id
    ),
}


@pytest.mark.parametrize(("state", "event"), TRANSITIONS)
def test_every_row_is_taken(state: PersisterState, event: PersisterEvent) -> None:
    arranged = Arranged()
    for step in [*way_to(state, IDLE, TRANSITIONS), event]:
        STEPS[step](arranged)
    assert arranged.persister.state is TRANSITIONS[state, event]


def test_buffers_are_stored_until_the_barrier_arrives() -> None:
    """Row 58."""
    arranged = Arranged()
    assert arranged.start(1)
    assert arranged.stores
    assert arranged.persister.place_of_barrier() is None
    arranged.barrier(1, 7)
    assert not arranged.stores
    assert arranged.persister.place_of_barrier() == 7


@pytest.mark.parametrize(
    "options", [UNALIGNED, CheckpointOptions(), CheckpointOptions(aligned_timeout_ms=1)]
)
def test_a_barrier_may_come_before_the_checkpoint_starts_here(options: CheckpointOptions) -> None:
    arranged = Arranged()
    arranged.barrier(1, 7, options)
    assert options.data_type in BARRIERS
    assert arranged.start(1)
    assert not arranged.stores
    assert arranged.persister.place_of_barrier() == 7


def test_a_barrier_of_an_older_checkpoint_changes_nothing() -> None:
    """H7: it is late, or its checkpoint was cancelled."""
    arranged = Arranged()
    arranged.start(2)
    arranged.barrier(1)
    assert arranged.stores
    arranged.barrier(3, 9)
    arranged.barrier(2, 10)
    assert arranged.start(3)
    assert arranged.persister.place_of_barrier() == 9


@pytest.mark.parametrize("sequence", [0, 1, 1000])
def test_the_place_of_a_barrier_does_not_decide_which_checkpoint_is_later(sequence: int) -> None:
    arranged = Arranged()
    arranged.barrier(5, sequence)
    assert not arranged.start(4)
    assert arranged.start(5)
    assert not arranged.stores
    assert arranged.persister.place_of_barrier() == sequence
    assert arranged.start(6)
    assert arranged.stores
    assert arranged.persister.place_of_barrier() is None


def test_a_barrier_of_a_later_checkpoint_ends_this_one() -> None:
    """H7: this checkpoint is subsumed and can no longer start."""
    arranged = Arranged()
    arranged.start(1)
    arranged.barrier(2)
    assert not arranged.stores
    assert arranged.persister.place_of_barrier() is None
    assert not arranged.start(1)
    assert not arranged.stores


def test_an_older_checkpoint_does_not_start_after_a_later_one() -> None:
    """H7: it is subsumed."""
    arranged = Arranged()
    arranged.start(2)
    assert not arranged.start(1)
    assert arranged.stores
    arranged.persister.stop(1)
    assert arranged.stores, "it was not the one that is stored"
    arranged.persister.stop(2)
    assert not arranged.stores


def test_a_later_checkpoint_takes_over() -> None:
    arranged = Arranged()
    arranged.start(1)
    later: list[Buffer] = []
    assert arranged.persister.start(2, later.append)
    arranged.barrier(1)
    assert arranged.stores
    arranged.barrier(2)
    assert not arranged.stores
    assert arranged.start(3)
    arranged.barrier(3, 5)
    assert arranged.start(3), "again, for what has arrived"
    assert not arranged.stores


def test_other_events_than_barriers_change_nothing() -> None:
    arranged = Arranged()
    arranged.start(1)
    arranged.persister.on_event(CancelCheckpointMarker(1).event(), 0)
    arranged.persister.on_event(Event(DataType.PRIORITIZED_EVENT_BUFFER, b"own"), 1)
    assert arranged.stores

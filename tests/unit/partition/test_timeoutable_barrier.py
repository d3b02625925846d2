"""A barrier that can time out, in the queues of a partition, for each step of its state table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.partition import timeoutable_barrier
from flinknet.partition.timeoutable_barrier import (
    TRANSITIONS,
    BarrierEvent,
    BarrierState,
    OvertakenData,
    TimeoutableBarrier,
)
from flinknet.wire.events import CheckpointBarrier, CheckpointOptions
from tests.unit.arrangements import (
    Reader,
    assert_everything_returned,
    content_of,
    make_partition,
    put,
)
from tests.unit.tables import named, shown_in, way_to

BARRIER = CheckpointBarrier(7, 0, CheckpointOptions(aligned_timeout_ms=10))


class Arranged:
    """A barrier behind data in each of some subpartitions, which no reader has read."""

    def __init__(self, subpartitions: int = 3) -> None:
        self.partition, self.pool = make_partition(subpartitions)
        for index in range(subpartitions):
            put(self.partition, index, b"%d" % index)
        self.told: list[OvertakenData | None] = []
        parts = self.partition.subpartitions
        self.barrier = TimeoutableBarrier(BARRIER, parts, self.told.append)
        self.barrier.queue()

    def give_back(self) -> list[list[bytes]]:
        """Return the contents of the overtaken buffers, and recycle them."""
        (overtaken,) = self.told
        assert overtaken is not None
        contents = [[content_of(buffer) for buffer in part] for part in overtaken]
        for part in overtaken:
            for buffer in part:
                buffer.recycle()
        return contents


def test_the_table_is_the_documented_one() -> None:
    assert shown_in(timeoutable_barrier.__doc__) == named(TRANSITIONS)


STEPS: dict[BarrierEvent, Callable[[TimeoutableBarrier], object]] = {
    BarrierEvent.SETTLE: lambda barrier: barrier.settle(0, []),
    BarrierEvent.COMPLETE: TimeoutableBarrier.time_out_everywhere,
    BarrierEvent.ABORT: TimeoutableBarrier.abort,
}


@pytest.mark.parametrize(("state", "event"), TRANSITIONS)
def test_every_row_is_taken(state: BarrierState, event: BarrierEvent) -> None:
    arranged = Arranged()
    for step in [*way_to(state, BarrierState.QUEUED, TRANSITIONS), event]:
        STEPS[step](arranged.barrier)
        arranged.barrier.check_invariants()
    after = TRANSITIONS[state, event]
    assert arranged.barrier.state is after
    assert len(arranged.told) == (after is not BarrierState.QUEUED), "told once"


def test_the_barrier_is_queued_as_one_buffer() -> None:
    arranged = Arranged()
    assert arranged.barrier.checkpoint_id == 7
    assert arranged.barrier.event.references == 3
    assert content_of(arranged.barrier.event) == BARRIER.event().body
    for index in range(3):
        view = arranged.partition.create_view(index, Reader())
        assert view.timeoutable_barrier() == BARRIER.event().body


def test_overtaken_data_is_reported_by_subpartition_in_order() -> None:
    """Row 18."""
    arranged = Arranged()
    assert arranged.barrier.time_out(2)
    arranged.barrier.settle(0, [])
    assert arranged.told == []
    assert not arranged.barrier.is_waiting(0)
    assert arranged.barrier.is_waiting(1)
    assert arranged.barrier.time_out(1)
    assert arranged.give_back() == [[], [b"1"], [b"2"]]
    arranged.partition.release()
    assert_everything_returned(arranged.pool)


def test_a_barrier_times_out_once_in_a_subpartition() -> None:
    arranged = Arranged()
    arranged.barrier.settle(0, [])
    for index in (0, 1, 1):
        arranged.barrier.time_out(index)
    assert not arranged.barrier.time_out(0)
    arranged.barrier.time_out_everywhere()
    arranged.barrier.time_out_everywhere()
    assert arranged.give_back() == [[], [b"1"], [b"2"]]
    kinds = [part.next_data_type() for part in arranged.partition.subpartitions]  # type: ignore[attr-defined]
    priority = DataType.PRIORITIZED_EVENT_BUFFER
    assert kinds == [DataType.DATA_BUFFER_WITH_CLEAR_END, priority, priority]
    with pytest.raises(AssertionError, match="was not queued"):
        arranged.barrier.settle(1, [])


def test_an_abort_gives_back_what_was_overtaken() -> None:
    """C18: the callback is called once, and nothing is overtaken afterwards."""
    arranged = Arranged()
    arranged.barrier.time_out(1)
    arranged.barrier.abort()
    arranged.barrier.abort()
    assert not arranged.barrier.time_out(0)
    assert arranged.told == [None]
    arranged.partition.release()
    assert_everything_returned(arranged.pool)


def test_subpartitions_without_readers_are_settled_at_once() -> None:
    partition, _ = make_partition(2)
    for index in range(2):
        partition.create_view(index, Reader()).release()
    told: list[OvertakenData | None] = []
    barrier = TimeoutableBarrier(BARRIER, partition.subpartitions, told.append)
    barrier.queue()
    assert told == [[[], []]]
    assert barrier.state is BarrierState.SETTLED
    partition.release()


def test_a_barrier_keeps_its_length() -> None:
    """The byte counts of a partition then stay right when the barrier is converted."""
    assert len(BARRIER.event().body) == len(BARRIER.to_unaligned().event().body)

"""Sums over the subpartitions of a partition, read at once or over several turns."""

from __future__ import annotations

from flinknet.config import MetricsConfig
from flinknet.metrics.partition_totals import LONGEST_QUEUES, PartitionTotals, QueueRow
from flinknet.metrics.turns import Reading, Turns
from tests.unit.arrangements import make_partition, put
from tests.unit.metrics.samples import partition


def turns_of(subpartitions: int) -> Turns:
    return Turns(MetricsConfig(turn_channels=subpartitions), lambda: 0.0)


def counted(reading: Reading[PartitionTotals], parts: list[int]) -> Reading[PartitionTotals]:
    """Pass a reading on, and note each of its parts."""
    while True:
        try:
            next(reading)
        except StopIteration as end:
            totals: PartitionTotals = end.value
            return totals
        parts.append(len(parts))
        yield


def test_a_partition_sums_up_its_subpartitions() -> None:
    one = {"queued_buffers": 1, "queued_bytes": 10, "buffers_out": 2, "bytes_out": 20}
    totals = partition(one, {**one, "blocked": True}, {})
    assert (totals.subpartitions, totals.queued_buffers, totals.queued_bytes) == (3, 2, 20)
    assert (totals.buffers_out, totals.bytes_out, totals.blocked) == (4, 40, 1)
    assert totals.pool.in_use == 4


def test_a_wide_partition_is_read_in_parts_each_subpartition_once() -> None:
    wide, _ = make_partition(5)
    for index, content in ((1, b"abc"), (4, b"de"), (4, b"f")):
        put(wide, index, content)
    wide.seal_all()
    turns = turns_of(2)
    parts: list[int] = []
    totals = turns.at_once(counted(PartitionTotals.reading(wide, turns), parts))
    assert len(parts) == 3
    assert (totals.partition_id, totals.subpartitions, totals.finished) == ("p", 5, False)
    assert (totals.queued_buffers, totals.queued_bytes) == (3, 6)
    assert totals.longest_queues == (QueueRow(4, 2), QueueRow(1, 1))
    assert totals.pool == wide.statistics().pool
    wide.release()


def test_the_longest_queues_of_all_parts_are_told_of() -> None:
    wide, _ = make_partition(LONGEST_QUEUES + 3)
    for index in range(LONGEST_QUEUES + 3):
        for _ in range(1 + index % 2):
            put(wide, index, b"x")
    wide.seal_all()
    turns = turns_of(3)
    totals = turns.at_once(PartitionTotals.reading(wide, turns))
    assert len(totals.longest_queues) == LONGEST_QUEUES
    assert [row.subpartition for row in totals.longest_queues] == [1, 3, 5, 7, 9, 0, 2, 4]
    wide.release()


def test_a_partition_that_is_released_between_two_parts_is_read_to_its_end() -> None:
    wide, _ = make_partition(3)
    put(wide, 0, b"abc")
    put(wide, 2, b"abc")
    wide.seal_all()
    turns = turns_of(1)
    reading = PartitionTotals.reading(wide, turns)
    next(reading)
    wide.release()
    totals = turns.at_once(reading)
    assert (totals.subpartitions, totals.queued_buffers, totals.pool.in_use) == (3, 1, 0)

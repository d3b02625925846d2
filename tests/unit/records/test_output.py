from __future__ import annotations

from typing import Any

import msgpack
import pytest

from flinknet.records.output import BroadcastOutput, SubpartitionOutput
from flinknet.records.partitioner import BroadcastPartitioner
from tests.unit.arrangements import Running, assert_everything_returned, make_partition, run
from tests.unit.records.writing import Arranged, sized


def test_records_and_broadcasts_stay_in_order_in_buffers_that_were_taken_from() -> None:
    """D13: each way of writing ends the buffer of the other."""
    arranged = Arranged(2)
    expected: list[list[Any]] = [[], []]
    taken: list[list[Any]] = [[], []]
    for number in range(12):
        if number % 3 == 2:
            run(arranged.writer.broadcast_emit(("all", number)))
            for records in expected:
                records.append(("all", number))
        else:
            arranged.emit((number % 2, number))
            expected[number % 2].append((number % 2, number))
        arranged.writer.flush()
        taken[0] += arranged.take(0)
        if number % 4 == 3:
            taken[1] += arranged.take(1)
    assert [taken[0], taken[1] + arranged.take(1)] == expected


def test_a_broadcast_record_is_serialised_once_into_shared_buffers() -> None:
    """A20, D13: all share one buffer, and its bytes count for each."""
    arranged = Arranged(3, partitioner=BroadcastPartitioner())
    records = [("all", number) for number in range(20)]
    arranged.emit(records[0])
    run(arranged.writer.emit_many(records[1:]))
    arranged.writer.flush()
    in_use = arranged.partition.statistics().pool.in_use
    assert in_use == arranged.writer.buffers_opened == 2
    assert [arranged.take(index) for index in range(3)] == [records] * 3
    size = sum(len(msgpack.packb(record)) for record in records)
    assert arranged.writer.bytes_out == 3 * size
    assert arranged.writer.records_out == 20
    assert arranged.partition.statistics().pool.in_use == 0


@pytest.mark.parametrize("size", [3, 40, 200])
def test_one_and_all_in_turn_keep_the_order(size: int) -> None:
    """A17, A20, D14."""
    arranged = Arranged(2, floating_buffers_per_gate=60, buffers_per_subpartition_max=60)
    expected: list[list[Any]] = [[], []]
    for number in range(6):
        record = (number % 2, number, "x" * size)
        if number % 3 == 0:
            run(arranged.writer.broadcast_emit(record))
            for taken in expected:
                taken.append(record)
        else:
            arranged.emit(record)
            expected[number % 2].append(record)
    arranged.writer.flush()
    assert [arranged.take(index) for index in range(2)] == expected


def test_a_unicast_record_lets_the_broadcast_before_it_out() -> None:
    """A17: and the other way round, as for an event."""
    arranged = Arranged(2)
    run(arranged.writer.broadcast_emit("all"))
    arranged.emit((0, "one"))
    assert [view.backlog() for view in arranged.views] == [1, 1]
    arranged.emit((1, "other"))
    run(arranged.writer.broadcast_emit("all again"))
    assert [view.backlog() for view in arranged.views] == [2, 2]


def test_a_broadcast_that_one_reader_took_goes_on_for_the_other() -> None:
    arranged = Arranged(2)
    run(arranged.writer.broadcast_emit("first"))
    assert arranged.take(0) == ["first"]
    run(arranged.writer.broadcast_emit("second"))
    arranged.emit((1, "third"))
    run(arranged.writer.broadcast_emit("fourth"))
    arranged.writer.flush()
    assert arranged.take(0) == ["second", "fourth"]
    assert arranged.take(1) == ["first", "second", (1, "third"), "fourth"]


def test_a_long_broadcast_reaches_slow_and_fast_readers() -> None:
    arranged = Arranged(2, segments=3)
    emitting = Running(arranged.writer.broadcast_emit(sized(1_000)))
    assert [view.backlog() for view in arranged.views] == [3, 3], "its full buffers are offered"
    taken: list[list[Any]] = [[], []]
    while not emitting.done:
        for index in range(2):
            taken[index] += arranged.take(index, buffers=1)
        emitting.go_on()
    arranged.writer.flush()
    for index in range(2):
        assert taken[index] + arranged.take(index) == [sized(1_000)]


@pytest.mark.parametrize("broadcast", [True, False])
def test_without_memory_nothing_is_opened(broadcast: bool) -> None:
    """The open buffer stays open until it is sealed."""
    partition, pool = make_partition(1, segments=2, overdraft_buffers_per_partition=0)
    output = BroadcastOutput(partition) if broadcast else SubpartitionOutput(partition, 0)
    for _ in range(2):
        assert output.open()
        assert output.builder.append_whole(b"x")
    last = output.builder
    assert not output.open()
    assert output.builder is last
    assert not last.sealed
    output.seal()
    assert last.sealed
    partition.release()
    assert_everything_returned(pool)

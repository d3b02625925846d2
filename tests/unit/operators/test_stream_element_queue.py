"""The queue of an asynchronous operator, in both orders (Flink's StreamElementQueueTest)."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.operators.stream_element_queue import StreamElementQueue
from flinknet.wire.events import Watermark


def taken(queue: StreamElementQueue) -> list[Any]:
    queue.check_invariants()
    elements = [
        one.results if one.event_time is None else one.event_time for one in queue.take_completed()
    ]
    queue.check_invariants()
    return elements


def test_in_order_a_record_waits_for_those_before_it() -> None:
    queue = StreamElementQueue(3, ordered=True)
    first, second = queue.put("a"), queue.put("b")
    queue.complete(second, [2])
    assert taken(queue) == []
    assert queue.records() == ["a", "b"]
    queue.complete(first, [1, 1])
    assert taken(queue) == [[1, 1], [2]]
    assert not len(queue)


def test_without_order_records_leave_as_they_are_completed() -> None:
    queue = StreamElementQueue(3, ordered=False)
    first, second, third = queue.put("a"), queue.put("b"), queue.put("c")
    queue.complete(second, [2])
    assert queue.records() == ["b", "a", "c"]
    assert taken(queue) == [[2]]
    queue.complete(third, [])
    queue.complete(first, [1])
    assert taken(queue) == [[], [1]]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_watermark_is_not_overtaken_and_overtakes_nothing(ordered: bool) -> None:
    queue = StreamElementQueue(9, ordered=ordered)
    before = queue.put("before")
    queue.put_event_time(Watermark(7))
    behind = queue.put("behind")
    queue.complete(behind, ["late"])
    assert taken(queue) == []
    assert queue.records() == ["before", "behind"]
    queue.complete(before, ["early"])
    assert taken(queue) == [["early"], Watermark(7), ["late"]]


def test_a_watermark_in_an_empty_queue_leaves_at_once() -> None:
    queue = StreamElementQueue(1, ordered=False)
    queue.put_event_time(Watermark(1))
    assert queue.is_full
    assert taken(queue) == [Watermark(1)]
    assert not queue.is_full


def test_completed_entries_count_until_they_are_taken() -> None:
    queue = StreamElementQueue(2, ordered=False)
    entry = queue.put("a")
    queue.put("b")
    assert queue.is_full
    queue.complete(entry, [])
    assert queue.is_full
    assert len(queue) == 2
    assert taken(queue) == [[]]
    assert not queue.is_full


def test_a_segment_that_has_left_takes_no_more_records() -> None:
    queue = StreamElementQueue(2, ordered=False)
    queue.complete(queue.put("a"), [1])
    assert taken(queue) == [[1]]
    queue.complete(queue.put("b"), [2])
    assert taken(queue) == [[2]]

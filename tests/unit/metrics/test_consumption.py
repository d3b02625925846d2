"""The data on its way to a task, and the task's time for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.metrics.consumption import (
    BufferedSizes,
    buffered_bytes,
    bytes_per_busy_s,
    times_to_consume_ms,
)
from tests.unit.metrics.samples import channel


def test_what_waits_at_a_remote_producer_counts_as_large_as_what_came_before() -> None:
    counts: dict[str, Any] = {
        "buffers_in": 3,
        "bytes_in": 260,
        "queued_buffers": 1,
        "queued_bytes": 140,
    }
    assert buffered_bytes(channel(0, **counts, backlog=2)) == 140 + 2 * 100


def test_a_local_producer_has_counted_its_bytes() -> None:
    counts: dict[str, Any] = {
        "buffers_in": 3,
        "bytes_in": 300,
        "queued_buffers": 2,
        "queued_bytes": 170,
    }
    assert buffered_bytes(channel(0, "local", **counts, backlog=2)) == 170


def test_buffers_of_a_size_that_nobody_has_seen_count_nothing() -> None:
    assert buffered_bytes(channel(0, backlog=2)) == 0


@pytest.mark.parametrize(
    ("bytes_per_s", "idle_share", "throughput"),
    [(100.0, 0.0, 100.0), (100.0, 0.75, 400.0), (0.0, 0.5, None), (100.0, 1.0, None)],
)
def test_throughput_is_what_a_task_takes_while_it_does_not_wait(
    bytes_per_s: float, idle_share: float, throughput: float | None
) -> None:
    assert bytes_per_busy_s(bytes_per_s, idle_share) == throughput


def test_inputs_that_are_read_in_turn_take_each_as_long_as_all_up_to_as_much() -> None:
    assert times_to_consume_ms([300, 0, 100], 100.0) == [4_000.0, 0.0, 2_000.0]
    assert times_to_consume_ms([], 100.0) == []


def test_without_a_throughput_no_time_is_known() -> None:
    assert times_to_consume_ms([300, 0], None) == [None, None]


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_the_times_are_those_of_reading_byte_by_byte_in_turn(buffered: list[int]) -> None:
    times = times_to_consume_ms(buffered, 1_000.0)
    assert times == [float(sum(min(one, other) for other in buffered)) for one in buffered]


@given(st.lists(st.lists(st.integers(0, 100))), st.integers(0, 100))
def test_sizes_that_come_in_parts_are_read_as_those_that_come_together(
    parts: list[list[int]], size: int
) -> None:
    sizes = BufferedSizes()
    for part in parts:
        sizes.add(part)
    every = [one for part in parts for one in part]
    assert sizes.bytes_until(size) == sum(min(size, one) for one in every)


def test_many_parts_are_few_runs() -> None:
    sizes = BufferedSizes()
    for _ in range(1_000):
        sizes.add(range(10))
    assert len(sizes._runs) <= 11
    assert sizes.bytes_until(5) == 1_000 * (0 + 1 + 2 + 3 + 4 + 5 * 5)

"""The counters of a subtask, and their sums."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.metrics.io_metrics import IO_METRICS, IOMetrics


@dataclass(frozen=True)
class WithName(IOMetrics):
    """An object with the counters and a name."""

    name: str


def test_counters_add_up_one_by_one() -> None:
    total = IOMetrics.total([IOMetrics(1, 2, 3, 4, 5, 6, 7), IOMetrics(10, 20, 30, 40, 50, 60, 70)])
    assert total == IOMetrics(11, 22, 33, 44, 55, 66, 77)


def test_nothing_adds_up_to_zeros() -> None:
    assert IOMetrics.total([]) == IOMetrics(0, 0, 0, 0, 0, 0, 0)


def test_a_row_has_the_counters_alone_in_the_order_of_their_names() -> None:
    one = WithName(1, 2, 3, 4, 5, 6, 7, name="one")
    assert one.row() == (1, 2, 3, 4, 5, 6, 7)
    assert dict(zip(IO_METRICS, one.row(), strict=True))["backpressured_time_ms"] == 7
    assert IOMetrics.total([one, one]) == IOMetrics(2, 4, 6, 8, 10, 12, 14)

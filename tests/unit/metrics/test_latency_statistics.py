"""Histograms of latency markers: their sources, and their values."""

from __future__ import annotations

import sys
import threading

import pytest

from flinknet.config import LatencyGranularity, MetricsConfig
from flinknet.metrics.latency_statistics import QUANTILES, LatencyStatistics
from flinknet.metrics.plain import from_plain, to_plain
from flinknet.metrics.worker_statistics import SubtaskTotals
from flinknet.wire.events import LatencyMarker
from tests.unit.metrics.samples import subtask


def statistics(**options: object) -> LatencyStatistics:
    return LatencyStatistics("map", 3, MetricsConfig(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("granularity", "origins"),
    [
        ("single", [("", -1)]),
        ("operator", [("a", -1), ("b", -1)]),
        ("subtask", [("a", 0), ("a", 1), ("b", 0)]),
    ],
)
def test_the_granularity_says_which_markers_are_told_apart(
    granularity: LatencyGranularity, origins: list[tuple[str, int]]
) -> None:
    taken = statistics(latency_granularity=granularity)
    for uid, index in (("a", 0), ("a", 1), ("b", 0), ("a", 0)):
        taken.take(LatencyMarker(100, uid, index), 107)
    told = taken.histograms()
    assert [(one.source_uid, one.source_subtask_index) for one in told] == origins
    assert sum(one.markers for one in told) == 4
    assert {(one.operator_uid, one.operator_subtask_index) for one in told} == {("map", 3)}


def test_histograms_may_be_asked_for_in_another_thread_while_markers_are_taken() -> None:
    taken = statistics(latency_granularity="subtask", latency_histograms_max=3000)
    interval, has_ended = sys.getswitchinterval(), threading.Event()
    sys.setswitchinterval(1e-6)

    def takes() -> None:
        index = 0
        while not has_ended.is_set():
            index += 1
            taken.take(LatencyMarker(100, "a", index // 3 % 200), 107)

    thread = threading.Thread(target=takes)
    thread.start()
    try:
        for _ in range(30):
            told = taken.histograms()
            assert all(one.markers and one.last == 7 for one in told)
    finally:
        has_ended.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_what_is_told_is_of_the_last_ones() -> None:
    taken = statistics(latency_history_size=100)
    for number in range(150):
        taken.take(LatencyMarker(1_000, "a", 0), 1_000 + number)
    (told,) = taken.histograms()
    assert (told.markers, told.last, told.min, told.max) == (150, 149, 50, 149)
    assert told.mean == 99.5
    assert told.stddev == pytest.approx(28.866, abs=0.001)
    assert told.quantiles == (99, 124, 139, 144, 147, 148, 149)
    assert told.numbers() == {
        "min": 50,
        "max": 149,
        "mean": 99.5,
        "stddev": told.stddev,
        **dict(zip(QUANTILES, told.quantiles, strict=True)),
    }


def test_clocks_that_differ_may_make_it_negative() -> None:
    taken = LatencyStatistics()
    taken.take(LatencyMarker(1_000, "a", 0), 997)
    (told,) = taken.histograms()
    assert (told.min, told.max, set(told.quantiles), told.stddev) == (-3, -3, {-3}, 0.0)


def test_further_sources_than_there_is_room_for_have_no_histogram() -> None:
    taken = statistics(latency_histograms_max=2)
    for uid in ("a", "b", "c", "a"):
        taken.take(LatencyMarker(0, uid, 0), 1)
    assert [(one.source_uid, one.markers) for one in taken.histograms()] == [("a", 2), ("b", 1)]


def test_histograms_travel_with_the_statistics_of_their_subtask() -> None:
    taken = statistics()
    taken.take(LatencyMarker(0, "a", 0), 1)
    told = subtask(latencies=taken.histograms())
    assert from_plain(SubtaskTotals, to_plain(told)) == told

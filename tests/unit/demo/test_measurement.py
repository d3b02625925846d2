"""A keyed subtask's measurements, compared with a plain count of the same records."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.demo import measurement as measurement_module
from flinknet.demo.measurement import (
    BATCH_RECORDS,
    BUCKETS,
    INTERVAL_NS,
    SUB_BUCKET_BITS,
    Measurement,
    bucket_index,
    bucket_upper,
)

SUBTASK, SOURCES = 2, 3


@pytest.fixture(params=[1, 64, 5_000], ids=lambda batch: f"batches of {batch}")
def measured(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Measurement, list[tuple[int, int, int]]]:
    """Return a measurement of records on three channels, counted in batches, and the records."""
    monkeypatch.setattr(measurement_module, "BATCH_RECORDS", request.param)
    random = np.random.default_rng(7)
    arrivals = np.cumsum(random.integers(0, 400_000, 3_000)) + 12 * INTERVAL_NS + 77
    latencies = random.lognormal(13, 2, 3_000).astype(np.int64)
    sources = random.integers(0, 2, 3_000) * 2  # nothing comes from source 1
    records = list(
        zip(arrivals.tolist(), (arrivals - latencies).tolist(), sources.tolist(), strict=True)
    )
    measurement = Measurement(SUBTASK, SOURCES)
    for arrival, intended, source in records:
        measurement.add(arrival, source, [intended])
    return measurement, records


def test_latency_rows_count_every_record_once(
    measured: tuple[Measurement, list[tuple[int, int, int]]],
) -> None:
    measurement, records = measured
    expected = Counter(
        (source, int(bucket_index(np.array([arrival - intended]))[0]))
        for arrival, intended, source in records
    )
    rows = list(measurement.latency_rows())
    assert {row.subtask for row in rows} == {SUBTASK}
    counted = {
        (row.source, int(bucket_index(np.array([row.upper_ns]))[0])): row.records for row in rows
    }
    assert counted == dict(expected)


def test_the_last_latency_row_of_a_channel_is_its_exact_maximum(
    measured: tuple[Measurement, list[tuple[int, int, int]]],
) -> None:
    measurement, records = measured
    rows = list(measurement.latency_rows())
    for channel in {source for _, _, source in records}:
        largest = max(
            arrival - intended for arrival, intended, source in records if source == channel
        )
        assert max(row.upper_ns for row in rows if row.source == channel) == largest


def test_arrival_rows_cover_exactly_the_time_of_the_records(
    measured: tuple[Measurement, list[tuple[int, int, int]]],
) -> None:
    measurement, records = measured
    rows = list(measurement.arrival_rows())
    assert rows[0].begin_ns == records[0][0]
    assert rows[-1].end_ns == records[-1][0]
    assert all(before.end_ns <= after.begin_ns for before, after in pairwise(rows))
    assert [row.records for row in rows] == list(
        Counter(arrival // INTERVAL_NS for arrival, _, _ in records).values()
    )


def test_a_record_that_arrives_before_its_intended_time_has_no_latency() -> None:
    measurement = Measurement(0, 1)
    measurement.add(1_000, 0, [1_001])
    assert [(row.upper_ns, row.records) for row in measurement.latency_rows()] == [(0, 1)]


def test_records_that_come_together_are_as_many_that_come_alone() -> None:
    """They are lists and arrays, from several sources, some of them empty."""
    alone, together = Measurement(0, 2), Measurement(0, 2)
    for source, intended in ((1, [5, 9, 40]), (0, []), (0, np.array([7, 8])), (1, [11])):
        together.add(50, source, intended)
        for one in intended:
            alone.add(50, source, [one])
    assert list(together.latency_rows()) == list(alone.latency_rows())
    assert sum(row.records for row in together.arrival_rows()) == 6


def test_what_was_taken_is_counted_before_it_grows() -> None:
    """A keyed subtask's memory is bounded by a batch, for any number of records."""
    measurement = Measurement(0, 1)
    for arrival in range(3 * BATCH_RECORDS):
        measurement.add(arrival, 0, [0])
        assert len(measurement._taken) < BATCH_RECORDS


def test_a_subtask_without_records_has_no_rows() -> None:
    measurement = Measurement(0, 2)
    assert list(measurement.latency_rows()) == []
    assert list(measurement.arrival_rows()) == []


def test_the_longest_latency_is_exact_beyond_the_last_bucket() -> None:
    measurement = Measurement(0, 1)
    measurement.add(2**50, 0, [0])
    assert [(row.upper_ns, row.records) for row in measurement.latency_rows()] == [(2**50, 1)]


VALUE_MAX = 2**44 - 1


def test_every_bucket_contains_its_upper_limit() -> None:
    """The buckets are numbered without gaps, and each counts the value that it is named after."""
    buckets = np.arange(BUCKETS)
    uppers = bucket_upper(buckets)
    assert np.array_equal(bucket_index(uppers), buckets)
    assert np.array_equal(bucket_index(uppers[:-1] + 1), buckets[1:])
    assert uppers[-1] == VALUE_MAX


@given(st.lists(st.integers(0, VALUE_MAX), min_size=1))
def test_a_bucket_is_at_most_one_256th_wider_than_its_values(values: list[int]) -> None:
    exact = np.array(values, np.int64)
    uppers = bucket_upper(bucket_index(exact))
    assert (uppers >= exact).all()
    assert (uppers - exact <= exact >> SUB_BUCKET_BITS).all()


def test_values_outside_of_the_range_are_counted_at_its_ends() -> None:
    outside = np.array([-5, VALUE_MAX + 1, 2**62], np.int64)
    assert bucket_index(outside).tolist() == [0, BUCKETS - 1, BUCKETS - 1]

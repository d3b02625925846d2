"""The latency histogram's buckets, against their definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flinknet.demo.histogram import BUCKETS, SUB_BUCKET_BITS, bucket_index, bucket_upper

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

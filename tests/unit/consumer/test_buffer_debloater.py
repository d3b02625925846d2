from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import BufferDebloatConfig, NetworkConfig
from flinknet.consumer.buffer_debloater import BufferDebloater
from flinknet.errors import ConfigurationError


def debloater(
    smallest: int = 50, largest: int = 1100, *, samples: int = 1, **options: Any
) -> BufferDebloater:
    config = BufferDebloatConfig(
        **{
            "enabled": True,
            "target_ms": 1200,
            "segment_bytes_min": smallest,
            "samples": samples,
            **options,
        }
    )
    return BufferDebloater(config, largest)


@pytest.mark.parametrize(
    ("smallest", "largest", "throughput", "expected"),
    [
        (50, 1100, 3333, 249),
        (50, 1100, 0, 50),
        (250, 1100, 3333, 250),
        (50, 248, 3333, None),
    ],
)
def test_what_is_on_its_way_shall_be_consumed_within_the_target(
    smallest: int, largest: int, throughput: float, expected: int | None
) -> None:
    """P2: target 1200 ms, 16 buffers; bounded, and nothing to tell if it is what it was."""
    assert debloater(smallest, largest).recalculate(throughput, 16) == expected


def test_no_buffer_in_use_counts_as_one() -> None:
    """P2."""
    assert debloater(target_ms=1000).recalculate(500, 0) == 500


def test_small_changes_are_not_told() -> None:
    """P2: less than 25 % of what was told last, however many of them."""
    arranged = debloater(target_ms=1000)
    assert arranged.recalculate(800, 1) == 800
    assert [arranged.recalculate(size, 1) for size in (900, 999, 800, 601)] == [None] * 4
    assert arranged.statistics().buffer_bytes == 800
    assert arranged.recalculate(1000, 1) == 1000
    assert arranged.recalculate(750, 1) == 750


@pytest.mark.parametrize(("near", "bound"), [(60, 50), (1000, 1100)])
def test_a_bound_is_told_however_near(near: int, bound: int) -> None:
    """P2: min and max reached are announced, once."""
    arranged = debloater(target_ms=1000)
    arranged.recalculate(500, 1)
    assert arranged.recalculate(near, 1) == near
    assert arranged.recalculate(0 if bound == 50 else 5000, 1) == bound
    assert arranged.recalculate(0 if bound == 50 else 5000, 1) is None


def test_an_estimate_of_the_time_to_consume() -> None:
    """Metric estimatedTimeToConsumeBuffersMs: all buffers at the present size, as fast as now."""
    arranged = debloater(target_ms=1000, largest=4000)
    arranged.recalculate(8000, 4)
    assert arranged.statistics() == (2000, 1000.0)
    arranged.recalculate(0, 4)
    assert arranged.statistics() == (50, 200_000.0)


def test_sizes_follow_an_exponential_average() -> None:
    """Census 1.8: from the largest, with weight 2 / (samples + 1)."""
    arranged = debloater(256, 32768, samples=20, threshold_percent=0)
    sizes = [arranged.recalculate(0, 1) for _ in range(3)]
    assert sizes == [32768 * 19 // 21, 32768 * 19**2 // 21**2, 32768 * 19**3 // 21**3]


def test_sizes_grow_no_faster_than_they_shrink() -> None:
    """Census 1.8: a single value counts for twice the present size at most."""
    arranged = debloater(256, 32768, samples=20, threshold_percent=0)
    for _ in range(200):
        arranged.recalculate(0, 1)
    assert arranged.buffer_bytes == 256
    sizes = [arranged.recalculate(1e12, 1) for _ in range(3)]
    assert sizes == [256 * 23 // 21, 256 * 23**2 // 21**2, 256 * 23**3 // 21**3]


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 1e12), st.integers(0, 10_000)), max_size=50),
)
def test_a_size_is_always_one_that_a_producer_can_use(
    samples: int, seen: list[tuple[float, int]]
) -> None:
    arranged = debloater(256, 32768, samples=samples)
    last = 32768
    for throughput, buffers in seen:
        size = arranged.recalculate(throughput, buffers)
        arranged.check_invariants()
        if size is not None:
            assert 256 <= size <= 32768
            assert size in (256, 32768) or abs(size - last) >= last / 4
            last = size
        assert arranged.buffer_bytes == last


# -- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("target_ms", -1.0),
        ("target_ms", 0.0),
        ("period_ms", -1.0),
        ("samples", 0),
        ("segment_bytes_min", 0),
        ("threshold_percent", -1.0),
        ("threshold_percent", 100.0),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(option: str, value: float) -> None:
    """P2, P4."""
    with pytest.raises(ConfigurationError, match=option):
        BufferDebloatConfig(**{option: value})  # type: ignore[arg-type]


def test_the_smallest_size_is_at_most_the_largest() -> None:
    """P4; while debloating is off, small segments need nothing changed."""
    debloat = BufferDebloatConfig(enabled=True, segment_bytes_min=129)
    with pytest.raises(ConfigurationError, match=r"debloat.segment_bytes_min is 129"):
        NetworkConfig(segment_bytes=128, debloat=debloat)
    assert NetworkConfig(segment_bytes=129, debloat=debloat).debloat.enabled
    assert not NetworkConfig(segment_bytes=128).debloat.enabled

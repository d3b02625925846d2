"""The records that evictors remove, and the result of a window from the rest."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Time
from flinknet.functions.evictors import (
    CountEvictor,
    DeltaEvictor,
    EvictingContents,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)
from flinknet.functions.window_functions import ElementContents, ReducedContents, WindowContents
from flinknet.functions.windows import TimeWindow

WINDOW = TimeWindow(0, 100)


def distance(one: Any, other: Any) -> float:
    return abs(one - other)


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (lambda after: CountEvictor.of(2, after), [9, 6]),
        (lambda after: CountEvictor.of(9, after), [1, 5, 9, 6]),
        (lambda after: TimeEvictor.of(4, after), [9, 6]),
        (lambda after: TimeEvictor.of(Time.milliseconds(5), after), [5, 9, 6]),
        (lambda after: DeltaEvictor.of(3, distance, after), [5, 6]),
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_elements_left_by_an_evictor(make: Any, left: list[int], after: bool) -> None:
    """Each evicts at one of the two moments, and does nothing at the other."""
    evictor: Evictor = make(after)
    elements = [TimestampedValue(value, value) for value in (1, 5, 9, 6)]
    calls = [evictor.evict_after, evictor.evict_before]
    calls[after](elements, WINDOW, None)  # type: ignore[arg-type]
    assert len(elements) == 4
    calls[not after](elements, WINDOW, None)  # type: ignore[arg-type]
    assert [one.value for one in elements] == left


def test_without_timestamps_time_takes_nothing() -> None:
    elements = [TimestampedValue(None, 1), TimestampedValue(None, 2)]
    TimeEvictor(1).evict(elements)
    assert len(elements) == 2
    elements += [TimestampedValue(1, 3), TimestampedValue(9, 4)]
    TimeEvictor(1).evict(elements)
    assert [one.value for one in elements] == [1, 2, 4]


def test_nothing_differs_from_nothing() -> None:
    elements: list[TimestampedValue] = []
    DeltaEvictor(1, distance).evict(elements)
    assert elements == []


class Everything(Evictor):
    """Removes every record, before or after."""

    def __init__(self, after: bool) -> None:
        self._evicts_after = after

    def evict(self, elements: list[TimestampedValue]) -> None:
        elements.clear()


@pytest.mark.parametrize(
    ("contents", "said", "of_nothing"),
    [(ElementContents(), [1, 2], []), (ReducedContents(int.__add__), [3], None)],
)
def test_window_results_of_the_remaining_elements(
    contents: WindowContents, said: Any, of_nothing: Any
) -> None:
    """As in Flink, a function may get no records at all if none is left; a fold then has no
    result."""
    for after in (False, True):
        evicting = EvictingContents(contents, Everything(after))
        assert evicting.function is contents.function
        kept = [evicting.add(evicting.first((5, 1)), (6, 2))]
        assert evicting.fire(kept, WINDOW, None) == (said if after else of_nothing)  # type: ignore[arg-type]
        assert kept == []
    staying = EvictingContents(contents, CountEvictor(5))
    kept = [staying.add(staying.first((5, 1)), (6, 2))]
    assert staying.fire(kept, WINDOW, None) == said  # type: ignore[arg-type]
    assert kept == [[(5, 1), (6, 2)]]


def test_wrong_evictors() -> None:
    for count in (0, True, 1.5):
        with pytest.raises(ConfigurationError, match="max_count is"):
            CountEvictor(count)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="window_size is 0 ms"):
        TimeEvictor.of(0)
    with pytest.raises(ConfigurationError, match="delta_function is a int, not callable"):
        DeltaEvictor(1, 1)  # type: ignore[arg-type]

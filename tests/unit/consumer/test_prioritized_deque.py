from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.consumer.prioritized_deque import PrioritizedDeque


def queue_of(*ordinary: int, prioritized: tuple[int, ...] = ()) -> PrioritizedDeque[int]:
    queue: PrioritizedDeque[int] = PrioritizedDeque()
    for element in ordinary:
        queue.append(element)
    for element in prioritized:
        queue.append_prioritized(element)
    return queue


def take(queue: PrioritizedDeque[int]) -> int:
    return queue.pop_prioritized() if queue.prioritized else queue.popleft()


def test_priority_comes_first_in_its_own_order() -> None:
    """C20."""
    queue = queue_of(1, 2, prioritized=(7, 8))
    queue.append(3)
    queue.append_prioritized(9)
    assert list(queue) == [7, 8, 9, 1, 2, 3]
    assert queue.prioritized == 3
    assert [take(queue) for _ in range(6)] == [7, 8, 9, 1, 2, 3]
    assert (len(queue), queue.prioritized) == (0, 0)
    with pytest.raises(IndexError):
        take(queue)


def test_an_element_that_gets_priority_moves() -> None:
    """C20: it goes behind the other priority elements; an element that has priority does not
    move."""
    queue = queue_of(1, 2, 3, prioritized=(9,))
    queue.prioritize(3)
    assert (list(queue), queue.prioritized) == ([9, 3, 1, 2], 2)
    queue.prioritize(9)
    assert (list(queue), queue.prioritized) == ([9, 3, 1, 2], 2)
    with pytest.raises(ValueError, match="not in"):
        queue.prioritize(4)


def test_an_element_can_be_taken_out() -> None:
    """C20: getAndRemove."""
    queue = queue_of(1, 2, prioritized=(8, 9))
    queue.remove(9)
    assert (list(queue), queue.prioritized) == ([8, 1, 2], 1)
    queue.remove(1)
    assert (list(queue), queue.prioritized) == ([8, 2], 1)
    with pytest.raises(ValueError, match="not in"):
        queue.remove(1)


def test_clearing_takes_everything() -> None:
    queue = queue_of(1, prioritized=(9,))
    queue.clear()
    assert (list(queue), queue.prioritized) == ([], 0)


@given(st.lists(st.sampled_from(["append", "append_prioritized", "prioritize", "remove", "pop"])))
def test_it_is_two_queues_one_behind_the_other(steps: list[str]) -> None:
    queue: PrioritizedDeque[int] = PrioritizedDeque()
    first: list[int] = []
    second: list[int] = []
    for number, step in enumerate(steps):
        middle = (first + second)[len(first + second) // 2 :][:1]
        if step == "append":
            queue.append(number)
            second.append(number)
        elif step == "append_prioritized":
            queue.append_prioritized(number)
            first.append(number)
        elif step == "pop" and first + second:
            assert take(queue) == (first or second).pop(0)
        elif middle and step == "prioritize":
            queue.prioritize(middle[0])
            if middle[0] in second:
                second.remove(middle[0])
                first.append(middle[0])
        elif middle and step == "remove":
            queue.remove(middle[0])
            (first if middle[0] in first else second).remove(middle[0])
        assert (list(queue), queue.prioritized) == (first + second, len(first))

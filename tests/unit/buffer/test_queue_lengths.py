from __future__ import annotations

import pytest

from flinknet.buffer.queue_lengths import QueueLengths


@pytest.mark.parametrize(
    ("lengths", "summed"),
    [([3], (3, 3, 3, 3.0)), ([0, 0], (0, 0, 0, 0.0)), ([5, 0, 2, 1], (8, 0, 5, 2.0))],
)
def test_the_lengths_of_several_queues_are_summed_up(
    lengths: list[int], summed: tuple[int, int, int, float]
) -> None:
    assert QueueLengths.of(lengths) == summed

"""Shares of a source at another parallelism: what was left is read once, whoever reads it."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from flinknet.operators.source_shares import Share, shares_of

END = 200


def left(shares: Iterable[Share]) -> list[int]:
    """The numbers that are left of a sequence that was dealt out one by one."""
    return sorted(
        number
        for index, parallelism, position in shares
        for number in range(index + position * parallelism, END, parallelism)
    )


def at_parallelism(shares: list[Share], parallelism: int, *, can_be_cut: bool) -> list[list[Share]]:
    return [
        shares_of(shares, index, parallelism, can_be_cut=can_be_cut) for index in range(parallelism)
    ]


def test_fewer_subtasks_read_several() -> None:
    shares = [Share(0, 3, 5), Share(1, 3), Share(2, 3, 1)]
    for can_be_cut in (False, True):
        assert at_parallelism(shares, 2, can_be_cut=can_be_cut) == [
            [Share(0, 3, 5), Share(2, 3, 1)],
            [Share(1, 3)],
        ]


def test_of_nothing_nobody_has_a_share() -> None:
    assert at_parallelism([], 2, can_be_cut=True) == [[], []]


def test_more_subtasks_read_parts() -> None:
    shares = [Share(0, 2, 5), Share(1, 2)]
    assert at_parallelism(shares, 3, can_be_cut=True) == [
        [Share(2, 4, 2)],  # 10, 14, ...
        [Share(1, 2)],
        [Share(0, 4, 3)],  # 12, 16, ...
    ]


def test_what_cannot_be_cut_is_read_by_some() -> None:
    shares = [Share(0, 2, 5), Share(1, 2)]
    assert at_parallelism(shares, 3, can_be_cut=False) == [[shares[0]], [shares[1]], []]


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=6),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
)
def test_nothing_is_lost_and_nothing_read_twice(positions: list[int], steps: list[int]) -> None:
    """Also when the parallelism changes again and again."""
    shares = [Share(index, len(positions), at) for index, at in enumerate(positions)]
    for parallelism in steps:
        dealt = at_parallelism(shares, parallelism, can_be_cut=True)
        assert all(dealt), "everybody has something"
        before, shares = left(shares), [share for some in dealt for share in some]
        assert left(shares) == before

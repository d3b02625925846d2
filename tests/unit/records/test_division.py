from __future__ import annotations

from flinknet.records.division import Division


def test_chunks_that_fall_to_pieces_are_left_alone_for_a_while() -> None:
    """Then one chunk is tried again, as the load may have changed."""
    division = Division()
    assert division.wants(100)
    division.observe(100, 25)
    assert division.wants(100)
    division.observe(100, 26)
    assert [division.wants(100) for _ in range(34)] == [False] * 32 + [True] * 2


def test_a_few_records_are_not_divided() -> None:
    division = Division()
    assert not division.wants(3)
    assert division.wants(4)

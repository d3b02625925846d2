from __future__ import annotations

from flinknet.records.bulk_split import BulkSplitHeuristic


def test_chunks_that_fall_to_pieces_are_left_alone_for_a_while() -> None:
    """Then one chunk is tried again, as the load may have changed."""
    bulk_split = BulkSplitHeuristic()
    assert bulk_split.is_worthwhile(100)
    bulk_split.observe(100, 25)
    assert bulk_split.is_worthwhile(100)
    bulk_split.observe(100, 26)
    assert [bulk_split.is_worthwhile(100) for _ in range(34)] == [False] * 32 + [True] * 2


def test_a_few_records_are_not_divided() -> None:
    bulk_split = BulkSplitHeuristic()
    assert not bulk_split.is_worthwhile(3)
    assert bulk_split.is_worthwhile(4)

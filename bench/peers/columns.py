"""Rows as columns: the variant ``columnar`` of cases with rows as records.

A columnar program has columns at both ends. A block's columns are therefore made once, before the
measurement, and the consumer adds up one column. Only the checking round looks at every field of
every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bench.harness.case import Block, Case, Tally, Weigh

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KEY", "ROW_CASES", "ColumnBlock", "tally_of"]

ROW_CASES = ("tuple", "keyby")
KEY, VALUE = "key", "value"


class ColumnBlock:
    """The columns of the one block that a feed yields repeatedly."""

    def __init__(self, case: Case) -> None:
        import pyarrow as pa

        self._is_rows = case.name in ROW_CASES
        block = case.make_block()
        if self._is_rows:
            types = {KEY: pa.int32(), VALUE: pa.int32(), "weight": pa.float64()}
            columns = map(pa.array, zip(*block, strict=True), types.values())
            block = [pa.record_batch(list(columns), list(types))]
        self.batches: Sequence[pa.RecordBatch] = block

    def of(self, block: Block) -> Sequence[pa.RecordBatch]:
        """Return the batches of a block; the block itself if its records are batches."""
        return self.batches if self._is_rows else block


def tally_of(case: Case, batch: pa.RecordBatch, weigh: Weigh) -> Tally:
    """Return the tally of a batch, computed row by row only if every field counts."""
    if case.name not in ROW_CASES:
        return Tally(1, weigh(batch))
    if weigh is case.weigh:
        import pyarrow.compute as pc

        return Tally(batch.num_rows, pc.sum(batch.column(VALUE)).as_py())
    rows: list[tuple[Any, ...]] = list(
        zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    return Tally(len(rows), sum(map(weigh, rows)))

"""One operator of a subtask's chain, as it leaves a worker."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OperatorTotals"]


class OperatorTotals(NamedTuple):
    """Who it is, and what it has moved since its subtask was opened."""

    name: str
    uid: str
    records_in: int
    records_out: int
    """What it has emitted, side outputs included, however many edges that goes to."""
    input_watermark: int | None = None
    """Event time that it has been told of, in milliseconds; None if none has come, or no record
    there has a timestamp."""
    output_watermark: int | None = None
    """Event time that it has told of; None if it has not."""
    late_records_dropped: int | None = None
    """None if it never drops one for being late."""
    records_in_per_second: float = 0.0
    """Over the last minute (``meter.py``), and 0 until it was read twice."""
    records_out_per_second: float = 0.0

    def counts(self) -> tuple[int, int]:
        """The counters that are rated too."""
        return self.records_in, self.records_out

    def rated(self, records_in_per_second: float, records_out_per_second: float) -> OperatorTotals:
        """The same with the rates of its counters."""
        return self._replace(
            records_in_per_second=records_in_per_second,
            records_out_per_second=records_out_per_second,
        )

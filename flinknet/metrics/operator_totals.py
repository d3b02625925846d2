"""Summary of one operator of a subtask's chain."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OperatorTotals"]


class OperatorTotals(NamedTuple):
    """Identity of an operator, and its counters since its subtask was opened."""

    name: str
    uid: str
    records_in: int
    records_out: int
    """Records emitted, including side outputs; a record for several edges counts once."""
    input_watermark: int | None = None
    """Latest input watermark, in milliseconds since 1970.

    None if none has arrived, or if the records have no timestamps.
    """
    output_watermark: int | None = None
    """Latest emitted watermark; None if there is none."""
    late_records_dropped: int | None = None
    """Records dropped for being late; None if the operator never drops any."""
    records_in_per_second: float = 0.0
    """Rate over the last minute (``meter.py``); 0 until the second reading."""
    records_out_per_second: float = 0.0

    def counts(self) -> tuple[int, int]:
        """Return the counters that also have rates."""
        return self.records_in, self.records_out

    def rated(self, records_in_per_second: float, records_out_per_second: float) -> OperatorTotals:
        """Return a copy with the rates of its counters."""
        return self._replace(
            records_in_per_second=records_in_per_second,
            records_out_per_second=records_out_per_second,
        )

"""What one operator of a chain has emitted, for its metrics: counted where it goes on.

Theory of operation. What an operator has taken is what the one before it has emitted, or, of the
first one, what its subtask has read. So one place counts for two, and a batch costs one addition;
``emit`` stays a plain call, and who awaits it awaits the next operator itself. Only where side
outputs go different ways is what an operator takes counted by itself. Watermarks are noted alike.
"""

from __future__ import annotations

from typing import Any

from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.operators.operators import Emit, PassOn, StreamElement
from flinknet.wire.events import Watermark

__all__ = ["OperatorCounts", "RecordCount"]


class RecordCount:
    """Counts records on their way from one place to the next."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = 0

    def counted(self, emit: Emit) -> Emit:
        """The same, with the records counted. They are as soon as they are handed over."""

        def emit_counted(records: list[Any]) -> Any:
            self.records += len(records)
            return emit(records)

        return emit_counted


class OperatorCounts:
    """One operator's, in one subtask. ``before`` is the one that its records come from: None for
    the first of a chain. It ``splits_outputs`` if it emits to side outputs too."""

    def __init__(
        self, name: str, uid: str, before: OperatorCounts | None, *, splits_outputs: bool = False
    ) -> None:
        self._name = name
        self._uid = uid
        self._before = before
        self._splits_outputs = splits_outputs
        self._emitted = RecordCount()
        self._taken: RecordCount | None = None
        self._takes_a_part = before is not None and before._splits_outputs
        self._output_watermark: int | None = None

    def counted_input(self, process: Emit) -> Emit:
        """What takes the operator's records, which counts them if nobody else does."""
        if not self._takes_a_part:
            return process
        self._taken = self._taken or RecordCount()
        return self._taken.counted(process)

    def counted_output(self, emit: Emit) -> Emit:
        """What the operator emits to, with its records counted, those of side outputs too."""
        return self._emitted.counted(emit)

    def noted(self, pass_on: PassOn) -> PassOn:
        """What the operator tells of event time, with the last watermark kept."""

        def pass_on_noted(element: StreamElement) -> Any:
            if isinstance(element, Watermark):
                self._output_watermark = element.timestamp_ms
            return pass_on(element)

        return pass_on_noted

    def totals(
        self, records_read: int, watermark_read: int | None, late_records_dropped: int | None
    ) -> OperatorTotals:
        """Everything now, with what the subtask has read: the first operator has taken that."""
        before = self._before
        if before is None:
            records_in, input_watermark = records_read, watermark_read
        else:
            taken = self._taken if self._takes_a_part else before._emitted
            records_in = 0 if taken is None else taken.records
            input_watermark = before._output_watermark
        return OperatorTotals(
            name=self._name,
            uid=self._uid,
            records_in=records_in,
            records_out=self._emitted.records,
            input_watermark=input_watermark,
            output_watermark=self._output_watermark,
            late_records_dropped=late_records_dropped,
        )

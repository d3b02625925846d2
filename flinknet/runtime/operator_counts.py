"""Counts of the records and watermarks that one operator of a chain has emitted, for its metrics.

Theory of operation. The input of an operator is the output of the operator before it, or, for the
first one, the input of the subtask. So one counter serves two operators, and a batch costs one
addition. ``emit`` remains a plain call, and its caller awaits the next operator itself. Only behind
side outputs, which split the records, does an operator count its input separately. Watermarks are
recorded in the same way.
"""

from __future__ import annotations

from typing import Any

from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.operators.operators import Emit, PassOn, StreamElement
from flinknet.wire.events import Watermark

__all__ = ["OperatorCounts", "RecordCount"]


class RecordCount:
    """A counter of records on their way from one operator to the next."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = 0

    def counted(self, emit: Emit) -> Emit:
        """Return ``emit`` with a counter; records count as soon as they are passed on."""

        def emit_counted(records: list[Any]) -> Any:
            self.records += len(records)
            return emit(records)

        return emit_counted


class OperatorCounts:
    """The counts of one operator in one subtask.

    ``before`` is the operator that its records come from, None for the first of a chain.
    ``splits_outputs`` says whether the operator also emits to side outputs.
    """

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
        """Return ``process``, with a counter if the operator before cannot count for this one."""
        if not self._takes_a_part:
            return process
        self._taken = self._taken or RecordCount()
        return self._taken.counted(process)

    def counted_output(self, emit: Emit) -> Emit:
        """Return ``emit`` with a counter; records of side outputs count, too."""
        return self._emitted.counted(emit)

    def noted(self, pass_on: PassOn) -> PassOn:
        """Return ``pass_on`` with a record of the last watermark."""

        def pass_on_noted(element: StreamElement) -> Any:
            if isinstance(element, Watermark):
                self._output_watermark = element.timestamp_ms
            return pass_on(element)

        return pass_on_noted

    def totals(
        self, records_read: int, watermark_read: int | None, late_records_dropped: int | None
    ) -> OperatorTotals:
        """Return all current counts; the arguments are the input of the first operator."""
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

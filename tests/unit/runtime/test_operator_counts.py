"""Records and watermarks of the operators of a chain, counted where they are passed on."""

from __future__ import annotations

from typing import Any

from flinknet.operators.operators import StreamElement
from flinknet.runtime.operator_counts import OperatorCounts
from flinknet.wire.events import LatencyMarker, Watermark


class Next:
    """The next operator, which keeps its input."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.elements: list[StreamElement] = []

    async def process(self, records: list[Any]) -> None:
        self.records += records

    async def pass_on(self, element: StreamElement) -> None:
        self.elements.append(element)


async def test_records_emitted_by_an_operator_are_input_of_the_next() -> None:
    behind = Next()
    first = OperatorCounts("a", "uid of a", None)
    second = OperatorCounts("b", "uid of b", first)
    take = second.counted_input(behind.process)
    assert take == behind.process, "one place counts for both"
    emit = first.counted_output(take)
    await emit([1, 2, 3])
    await emit([4])
    assert behind.records == [1, 2, 3, 4]
    assert first.totals(7, 500, None)[:4] == ("a", "uid of a", 7, 4)
    assert second.totals(7, 500, 2)[:4] == ("b", "uid of b", 4, 0)
    assert second.totals(7, 500, 2).late_records_dropped == 2


async def test_behind_side_outputs_each_counts_its_own_part() -> None:
    behind = Next()
    first = OperatorCounts("a", "uid of a", None, splits_outputs=True)
    main, side = (OperatorCounts(name, name, first) for name in ("main", "side"))
    take_main, take_side = (one.counted_input(behind.process) for one in (main, side))

    async def split(records: list[Any]) -> None:
        await take_main(records[:-1])
        await take_side(records[-1:])

    await first.counted_output(split)([1, 2, 3])
    totals = [one.totals(9, None, None) for one in (first, main, side)]
    assert [one.records_in for one in totals] == [9, 2, 1]
    assert totals[0].records_out == 3


async def test_event_time_is_what_was_last_told() -> None:
    behind = Next()
    first = OperatorCounts("a", "uid of a", None)
    second = OperatorCounts("b", "uid of b", first)
    assert second.totals(0, 10, None).input_watermark is None
    pass_on = first.noted(behind.pass_on)
    told: list[StreamElement] = [Watermark(5), LatencyMarker(1, "source", 0), Watermark(8)]
    for element in told:
        await pass_on(element)
    assert behind.elements == told
    assert first.totals(0, 10, None)[4:6] == (10, 8)
    assert second.totals(0, 10, None)[4:6] == (8, None)

"""The real window operator of the public API, fed with the history of a case."""

from __future__ import annotations

from typing import Any

from flinknet.datastream import (
    AggregateFunction,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    EventTimeSessionWindows,
    GlobalWindows,
    OutputTag,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    StreamExecutionEnvironment,
    Time,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinknet.operators.operators import Operator
from flinknet.wire.events import Watermark
from tests.fuzz.windows.cases import Action, Case
from tests.fuzz.windows.model import LATE, delta_of, gap_of
from tests.unit.operators.harness import Harness, context
from tests.unit.operators.manual_time import ManualTime

__all__ = ["RealWindows"]

LATE_TAG = OutputTag("late")

Value = tuple[str, int]
"""A key and a number."""


class _Tell(ProcessWindowFunction):
    """A function that emits all elements, and empties the list that it was given."""

    def process(self, key: Any, context: Any, elements: list[Any]) -> list[Any]:
        window = tuple(context.window()) or None
        said = [(key, window, [n for _, n in elements])]
        elements.clear()
        return said


class _Add(AggregateFunction):
    """A sum of numbers in one list that changes in place."""

    def create_accumulator(self) -> list[Any]:
        return [None, 0]

    def add(self, value: Value, accumulator: list[Any]) -> list[Any]:
        accumulator[:] = [value[0], accumulator[1] + value[1]]
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        acc_a[1] += acc_b[1]
        return acc_a


class RealWindows(Harness):
    """An open window operator, and its clock."""

    def __init__(self, case: Case) -> None:
        self._time = ManualTime()
        super().__init__(_operator_of(case), context(processing_time=self._time), stamped=True)

    async def take(self, action: Action) -> list[Any]:
        """Return the output of an action, and check its timestamps."""
        before = len(self.records)
        match action.kind:
            case "record":
                await self.process((action.time_ms, (action.key, action.n)))
            case "watermark":
                await self.operator.process_event_time(Watermark(action.time_ms))
            case _:
                await self._time.advance(action.time_ms)
        return [_said(stamp, value) for stamp, value in self.records[before:]]


def _said(stamp: int | None, value: Any) -> Any:
    if value[0] == LATE_TAG:
        key, n = value[1]
        return LATE, key, n
    _, window, _ = value
    assert window is None or stamp == window[1] - 1, "a result has the time of its window's end"
    return value


def _operator_of(case: Case) -> Operator:
    """Return the operator that the API makes of a case."""
    environment = StreamExecutionEnvironment()
    records = environment.from_collection([("a", 0)])
    windows = records.key_by(lambda value: value[0]).window(_assigner(case))
    trigger = _trigger(case, windows._trigger)
    windows.trigger(PurgingTrigger.of(trigger) if case.is_purging else trigger)
    windows.allowed_lateness(case.lateness_ms)
    if case.late_output:
        windows.side_output_late_data(LATE_TAG)
    if case.evictor != "none":
        windows.evictor(_evictor(case))
    match case.contents:
        case "elements":
            stream = windows.process(_Tell())
        case "reduce":
            stream = windows.reduce(lambda one, other: (one[0], one[1] + other[1]), _Tell())
        case _:
            stream = windows.aggregate(_Add(), _Tell())
    (read,) = stream.inputs
    return read.transformation.factory()


def _assigner(case: Case) -> Any:
    size, slide = Time.milliseconds(case.size_ms), Time.milliseconds(case.slide_ms)
    offset = Time.milliseconds(case.offset_ms)
    event = case.is_event_time
    match case.assigner:
        case "tumbling":
            tumbling = TumblingEventTimeWindows if event else TumblingProcessingTimeWindows
            return tumbling.of(size, offset)
        case "sliding":
            sliding = SlidingEventTimeWindows if event else SlidingProcessingTimeWindows
            return sliding.of(size, slide, offset)
        case "session":
            session = EventTimeSessionWindows if event else ProcessingTimeSessionWindows
            return session.with_gap(size)
        case "dynamic session":
            session = EventTimeSessionWindows if event else ProcessingTimeSessionWindows
            return session.with_dynamic_gap(lambda value: gap_of(value[1]))
        case _:
            return GlobalWindows.create()


def _trigger(case: Case, default: Any) -> Any:
    match case.trigger:
        case "default":
            return default
        case "count":
            return CountTrigger.of(case.trigger_size)
        case _:
            interval = Time.milliseconds(case.trigger_size)
            if case.is_event_time:
                return ContinuousEventTimeTrigger.of(interval)
            return ContinuousProcessingTimeTrigger.of(interval)


def _evictor(case: Case) -> Any:
    after = case.evicts_after
    match case.evictor:
        case "count":
            return CountEvictor.of(case.evictor_size, after)
        case "time":
            return TimeEvictor.of(Time.milliseconds(case.evictor_size), after)
        case _:
            return DeltaEvictor.of(
                case.evictor_size, lambda one, last: delta_of(one[1], last[1]), after
            )

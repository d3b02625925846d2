# mypy: ignore-errors
"""Divides streams into windows: by count, by time, and by gaps between records."""

from collections.abc import Iterable

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import (
    CountWindow,
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
)


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[1])


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: tuple) -> int:
        return element[1]


class SumOfCount(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs: Iterable[tuple]):
        return [("count", key, sum(one[1] for one in inputs))]


class CountOf(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def __init__(self, kind):
        self.kind = kind

    def process(
        self,
        key: str,
        context: ProcessWindowFunction.Context[TimeWindow],
        elements: Iterable[tuple],
    ) -> Iterable[tuple]:
        window = context.window()
        return [(self.kind, key, window.start, window.end, len(list(elements)))]


COUNTED = Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT(), Types.INT(), Types.INT()])

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
words = env.from_collection(
    [("hi", 1), ("hi", 2), ("hi", 3), ("hi", 8), ("hi", 9), ("hi", 15)],
    type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
)
(
    words.key_by(lambda word: word[0], key_type=Types.STRING())
    .count_window(2)
    .apply(SumOfCount(), Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()]))
    .print()
)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
keyed = words.assign_timestamps_and_watermarks(strategy).key_by(
    lambda word: word[0], key_type=Types.STRING()
)
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(
    CountOf("session"), COUNTED
).print()
keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(
    CountOf("dynamic"), COUNTED
).print()
keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))).process(
    CountOf("sliding"), COUNTED
).print()
env.execute()

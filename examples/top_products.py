"""Which three products sold best in each ten minutes?

Windows count the sales of each product. A second operator gathers the counts of a window, and ranks
them when event time has passed its end: then no count of the window can be missing. Products with
equal counts are ranked by their names.

Shows: sliding windows, aggregation with a window function, list state, event-time timers.
Run: flinknet run examples/top_products.py
"""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.datastream import (
    AggregateFunction,
    Duration,
    KeyedProcessFunction,
    ListStateDescriptor,
    OnTimerContext,
    ProcessContext,
    ProcessWindowFunction,
    RuntimeContext,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Time,
    TimeWindow,
    WatermarkStrategy,
    WindowContext,
)

PRODUCTS = ["apple", "bread", "cheese", "dates", "eggs", "figs", "grapes"]
SALES = [(2 * n, PRODUCTS[n * n % 11 % 7 - n // 400]) for n in range(1200)]  # second, product


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: tuple[int, str], accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator


class WithWindow(ProcessWindowFunction):
    def process(
        self, key: str, context: WindowContext[TimeWindow], elements: list[int]
    ) -> Iterator[tuple[int, str, int]]:
        yield context.window().end, key, elements[0]


class Top(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_list_state(ListStateDescriptor("counts"))

    def process_element(self, value: tuple[int, str, int], ctx: ProcessContext) -> None:
        self.counts.add((-value[2], value[1]))
        ctx.timer_service().register_event_time_timer(value[0])

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[str]:
        best = ", ".join(f"{name} {-count}" for count, name in sorted(self.counts.get())[:3])
        self.counts.clear()
        yield f"until minute {timestamp // 60_000}: {best}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    event_time = event_time.with_timestamp_assigner(lambda sale, _: sale[0] * 1000)
    sales = env.from_collection(SALES).assign_timestamps_and_watermarks(event_time)
    windows = sales.key_by(lambda sale: sale[1]).window(
        SlidingEventTimeWindows.of(Time.minutes(10), Time.minutes(5))
    )
    windows.aggregate(Count(), WithWindow()).key_by(lambda count: count[0]).process(Top()).print()
    env.execute("top products")

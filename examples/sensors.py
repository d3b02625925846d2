"""How warm was each room per minute, if one sensor falls silent and nobody unplugs it?

Sensors send a reading every ten seconds of event time. The one in the cellar stops after a minute,
but its stream stays open, so its watermark stands still. Idleness takes it out of the minimum:
the windows of the other rooms close while it is silent. Without it they would wait for the end.

Shows: watermarks of several sources, idleness, windows with aggregation, a source of your own.
Run: flinknet run examples/sensors.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from flinknet.datastream import (
    AggregateFunction,
    Duration,
    ProcessWindowFunction,
    RuntimeContext,
    Source,
    StreamExecutionEnvironment,
    Time,
    TimeWindow,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    WindowContext,
)

Reading = tuple[str, int, float]  # room, second, degrees
END_OF_TIME = 2**63 - 1  # the watermark behind the end of all sources


class Sensor(Source[Reading]):
    parallelism = 1

    def __init__(self, room: str, readings: int, then_silent_s: float) -> None:
        self.room, self.readings, self.then_silent_s = room, readings, then_silent_s

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[Reading]]:
        for number in range(self.readings):
            yield [(self.room, 10 * number, 15.0 + len(self.room) + number % 7)]
            with context.idle():
                await asyncio.sleep(0.05)
        with context.idle():
            await asyncio.sleep(self.then_silent_s)


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, float]:
        return 0, 0.0

    def add(self, value: Reading, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator: tuple[int, float]) -> float:
        return accumulator[1] / accumulator[0]


class Describe(ProcessWindowFunction):
    def process(
        self, key: str, context: WindowContext[TimeWindow], elements: list[float]
    ) -> Iterator[str]:
        when = "at the end" if context.current_watermark() == END_OF_TIME else "live"
        yield f"{key}, minute {context.window().start // 60_000}: {elements[0]:.2f} degrees, {when}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_config().set_auto_watermark_interval(20)
    ticking = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(300))
    ticking = ticking.with_timestamp_assigner(lambda reading, _: reading[1] * 1000)
    sensors = [Sensor("cellar", 7, 3.0), Sensor("kitchen", 31, 1.0), Sensor("attic", 31, 1.0)]
    first, *others = [env.from_source(one, ticking, one.room) for one in sensors]
    minutes = TumblingEventTimeWindows.of(Time.minutes(1))
    rooms = first.union(*others).key_by(lambda reading: reading[0]).window(minutes)
    rooms.aggregate(Mean(), Describe()).print()
    env.execute("sensors")

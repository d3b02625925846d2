"""How long do visitors stay, and which clicks come too late to count?

A session is a row of clicks of one visitor without a pause of half a minute. Clicks arrive out of
order: watermarks wait five seconds for them. A click that arrives after its session was closed goes
to a side output. The source pauses before the last clicks, so that a watermark overtakes them.

Shows: session windows, watermarks, late data, side outputs, a source of your own.
Run: flinknet run examples/sessions.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from flinknet.datastream import (
    Duration,
    EventTimeSessionWindows,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
    Source,
    StreamExecutionEnvironment,
    Time,
    TimeWindow,
    WatermarkStrategy,
    WindowContext,
)

Click = tuple[str, int, str]  # visitor, second, page

ON_TIME: list[Click] = [
    ("ann", 0, "home"),
    ("bob", 4, "home"),
    ("ann", 20, "shoes"),
    ("ann", 17, "search"),
    ("bob", 50, "home"),
    ("ann", 90, "home"),
    ("bob", 75, "basket"),
    ("cid", 200, "home"),
]
LATE: list[Click] = [("ann", 25, "basket"), ("cid", 198, "search"), ("bob", 5, "shoes")]


class Clicks(Source[Click]):
    parallelism = 1

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[Click]]:
        yield ON_TIME
        with context.idle():
            await asyncio.sleep(1.5)  # many times the interval of watermarks
        yield LATE


class Session(ProcessWindowFunction):
    def process(
        self, key: str, context: WindowContext[TimeWindow], elements: list[Click]
    ) -> Iterator[str]:
        pages = [page for _, page in sorted(click[1:] for click in elements)]
        yield f"{key} from {context.window().start // 1000} s: {', '.join(pages)}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_config().set_auto_watermark_interval(20)
    too_late = OutputTag[Click]("too late")
    event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    event_time = event_time.with_timestamp_assigner(lambda click, _: click[1] * 1000)
    sessions = (
        env.from_source(Clicks(), event_time, "clicks")
        .key_by(lambda click: click[0])
        .window(EventTimeSessionWindows.with_gap(Time.seconds(30)))
        .side_output_late_data(too_late)
        .process(Session())
    )
    sessions.print()
    sessions.get_side_output(too_late).print("too late")
    env.execute("sessions")

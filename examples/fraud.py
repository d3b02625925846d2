"""Which cards are tested with a small payment before they are emptied with a large one?

A payment below one euro sets a flag of its card, and a timer a minute later removes it. A payment
above 500 euros raises an alert while the flag stands. The flag also expires after an hour of real
time, so that a card without further payments keeps no state if event time stands still.

Shows: keyed state, event-time timers, time to live of state.
Run: flinknet run examples/fraud.py
"""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.datastream import (
    Duration,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessContext,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)

Payment = tuple[int, str, float]  # second, card, euros

SMALL, LARGE, WITHIN_MS = 1.0, 500.0, 60_000


def payments() -> list[Payment]:
    """Return 2,000 payments; every 90th is small, and a large one follows it."""
    made: list[Payment] = []
    for number in range(2000):
        second, card = 10 * number, f"card-{number % 20:02}"
        made.append((second, card, 0.5 if number % 90 == 0 else 20.0 + number % 50))
        if number % 90 == 0:
            made.append((second + 5 + number // 20, card, 900.0))
    return sorted(made)


class Detector(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        flag = ValueStateDescriptor("time of the small payment")
        flag.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_hours(1)).build())
        self.small_at = runtime_context.get_state(flag)

    def process_element(self, value: Payment, ctx: ProcessContext) -> Iterator[str]:
        second, card, euros = value
        small_at, now = self.small_at.value(), second * 1000
        if small_at is not None and euros > LARGE and now <= small_at + WITHIN_MS:
            yield f"{card}: {euros:.0f} euros {(now - small_at) // 1000} s after a small payment"
        if small_at is not None:
            ctx.timer_service().delete_event_time_timer(small_at + WITHIN_MS)
            self.small_at.clear()
        if euros < SMALL:
            self.small_at.update(now)
            ctx.timer_service().register_event_time_timer(now + WITHIN_MS)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> None:
        self.small_at.clear()


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda payment, _: payment[0] * 1000
    )
    # One subtask keeps the order of the payments; two would each get every other one.
    stream = env.from_collection(payments()).assign_timestamps_and_watermarks(event_time)
    alerts = stream.set_parallelism(1).key_by(lambda payment: payment[1]).process(Detector())
    with alerts.execute_and_collect("fraud") as found:
        for alert in sorted(found):
            print(alert)

"""Which orders were paid within a quarter of an hour, and which were not?

Both have the number of an order, and arrive in any sequence. The first waits in state for the
other. A timer ends the wait when event time tells that no partner can come any more: the order
is unpaid, or the payment has no order or comes too late.

Shows: an interval join of connected streams, keyed state, event-time timers, a side output.
Run: flinknet run examples/joins.py
"""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.datastream import (
    KeyedCoProcessFunction,
    OnTimerContext,
    OutputTag,
    ProcessContext,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)

Event = tuple[int, int, int]  # minute, order, euros
Result = tuple[str, Event] | tuple[OutputTag[Event], Event]
ORDERS: list[Event] = [(number, number, 10 + number % 90) for number in range(200)]
# Every 7th order is not paid, the others after 0 to 22 minutes; three payments have no order.
PAYMENTS: list[Event] = sorted((n + n % 23, n, euros) for _, n, euros in ORDERS if n % 7)
PAYMENTS += [(230 + number, 1000 + number, 10) for number in range(3)]
MINUTE_MS, WITHIN = 60_000, 15
UNMATCHED = OutputTag[Event]("payments without an order")


class Pay(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.order = runtime_context.get_state(ValueStateDescriptor("order"))
        self.payment = runtime_context.get_state(ValueStateDescriptor("payment"))

    def process_element1(self, value: Event, ctx: ProcessContext) -> Iterator[tuple[str, Event]]:
        self.order.update(value)
        ctx.timer_service().register_event_time_timer((value[0] + WITHIN) * MINUTE_MS)
        return self.join()

    def process_element2(self, value: Event, ctx: ProcessContext) -> Iterator[tuple[str, Event]]:
        self.payment.update(value)
        ctx.timer_service().register_event_time_timer(value[0] * MINUTE_MS)
        return self.join()

    def join(self) -> Iterator[tuple[str, Event]]:
        order, payment = self.order.value(), self.payment.value()
        if order and payment and 0 <= payment[0] - order[0] <= WITHIN:
            self.order.clear()
            self.payment.clear()
            yield "paid", order

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Result]:
        order, payment = self.order.value(), self.payment.value()
        if order and timestamp == (order[0] + WITHIN) * MINUTE_MS:
            self.order.clear()
            yield "unpaid", order
        if payment and timestamp == payment[0] * MINUTE_MS:
            self.payment.clear()
            yield UNMATCHED, payment


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    by_minute = WatermarkStrategy.for_monotonous_timestamps()
    by_minute = by_minute.with_timestamp_assigner(lambda event, _: event[0] * MINUTE_MS)
    orders = env.from_collection(ORDERS).assign_timestamps_and_watermarks(by_minute)
    payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(by_minute)
    connected = orders.connect(payments).key_by(lambda order: order[1], lambda paid: paid[1])
    joined = connected.process(Pay())
    unmatched = joined.get_side_output(UNMATCHED).map(lambda payment: ("unmatched", payment))
    found = sorted(joined.union(unmatched).execute_and_collect("joins"))
    for kind in ("paid", "unpaid", "unmatched"):
        euros = [event[2] for what, event in found if what == kind]
        print(f"{kind}: {len(euros)}, {sum(euros)} euros")

"""Which changes of accounts break the rules that were in force at the time of the change?

A change log inserts, updates and deletes accounts. A second stream sends rules to every subtask.
The streams have no common order, so a change waits until the watermark has passed its time.

Shows: change data (Row, RowKind), broadcast state, keyed state, event-time timers.
Run: flinknet run examples/rules.py
"""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.datastream import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    OnTimerBroadcastContext,
    Row,
    RowKind,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)

INSERT, UPDATE, DELETE = RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE
CHANGES = [  # second, account, balance
    Row.of_kind(INSERT, 1, "ann", 100),
    Row.of_kind(UPDATE, 10, "ann", -20),
    Row.of_kind(INSERT, 12, "bob", 900),
    Row.of_kind(UPDATE, 25, "ann", -40),
    Row.of_kind(UPDATE, 31, "bob", 100),
    Row.of_kind(DELETE, 35, "ann", -40),
]
Rule = tuple[int, str, int]  # in force from this second on, name, limit
RULES = [(0, "least", -30), (20, "withdrawn", 500), (20, "least", -10)]
VERSIONS = MapStateDescriptor("rules by second and name")


class Check(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_map_state(MapStateDescriptor("waiting"))
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance"))

    def process_broadcast_element(self, value: Rule, ctx: BroadcastContext) -> None:
        ctx.get_broadcast_state(VERSIONS).put(value[:2], value[2])

    def process_element(self, value: Row, ctx: BroadcastContext) -> None:
        self.waiting.put(value[0], value)
        ctx.timer_service().register_event_time_timer(value[0] * 1000)

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> Iterator[str]:
        second, account, balance = change = self.waiting.get(timestamp // 1000)
        self.waiting.remove(second)
        versions = ctx.get_broadcast_state(VERSIONS).items()
        limits = {name: limit for (since, name), limit in sorted(versions) if since <= second}
        withdrawn = (self.balance.value() or 0) - balance
        self.balance.update(balance)
        if change.get_row_kind() is DELETE:
            self.balance.clear()
            yield f"{second} s: {account} is deleted with a balance of {balance}"
        elif balance < limits.get("least", balance):
            yield f"{second} s: {account} has {balance}, less than {limits['least']}"
        elif withdrawn > limits.get("withdrawn", withdrawn):
            yield f"{second} s: {account} has withdrawn {withdrawn}, over {limits['withdrawn']}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    by_second = WatermarkStrategy.for_monotonous_timestamps()
    by_second = by_second.with_timestamp_assigner(lambda event, _: event[0] * 1000)
    rules = env.from_collection(RULES).assign_timestamps_and_watermarks(by_second)
    changes = env.from_collection(CHANGES).assign_timestamps_and_watermarks(by_second)
    accounts = changes.key_by(lambda change: change[1])
    accounts.connect(rules.broadcast(VERSIONS)).process(Check()).print()
    env.execute("rules")

# mypy: ignore-errors
"""Keeps a sum for each key in state that expires, and emits it from timers."""

from pyflink.common import Duration, Time, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor

PAYMENTS = [(1000, "Alice", 110.5), (4000, "Bob", 30.25), (3000, "Alice", 20.0), (9000, "Bob", 1.0)]


class Sum(KeyedProcessFunction):
    def __init__(self):
        self.state = None

    def open(self, runtime_context: RuntimeContext):
        descriptor = ValueStateDescriptor("sum", Types.FLOAT())
        descriptor.enable_time_to_live(
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .disable_cleanup_in_background()
            .build()
        )
        self.state = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.state.update((self.state.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext):
        yield ctx.get_current_key(), timestamp, self.state.value()


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return int(value[0])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    collection=PAYMENTS, type_info=Types.TUPLE([Types.LONG(), Types.STRING(), Types.DOUBLE()])
)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
payments = payments.assign_timestamps_and_watermarks(
    strategy.with_timestamp_assigner(PaymentTime())
)
payments.key_by(lambda value: value[1], key_type=Types.STRING()).process(Sum()).print()
env.execute()

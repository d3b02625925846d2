# mypy: ignore-errors
"""Keeps keyed state in functions other than process functions, and joins two streams by key."""

from pyflink.common import Time, Types
from pyflink.datastream import (
    CoMapFunction,
    FlatMapFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.functions import FilterFunction, KeyedCoProcessFunction
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class CountWindowAverage(FlatMapFunction):
    def __init__(self):
        self.sum = None

    def open(self, runtime_context: RuntimeContext):
        descriptor = ValueStateDescriptor("average", Types.PICKLED_BYTE_ARRAY())
        ttl_config = (
            StateTtlConfig.new_builder(Time.days(1))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        descriptor.enable_time_to_live(ttl_config)
        self.sum = runtime_context.get_state(descriptor)

    def flat_map(self, value):
        current_sum = self.sum.value()
        if current_sum is None:
            current_sum = (0, 0)
        current_sum = (current_sum[0] + 1, current_sum[1] + value[1])
        if current_sum[0] >= 2:
            self.sum.clear()
            yield "average", value[0], int(current_sum[1] / current_sum[0])
        else:
            self.sum.update(current_sum)


class Total(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        descriptor = ReducingStateDescriptor("total", lambda one, other: one + other, Types.INT())
        self.total = runtime_context.get_reducing_state(descriptor)

    def map(self, value):
        self.total.add(value[1])
        return "total", value[0], self.total.get()


class New(FilterFunction):
    def open(self, runtime_context: RuntimeContext):
        descriptor = MapStateDescriptor("seen", Types.INT(), Types.BOOLEAN())
        self.seen = runtime_context.get_map_state(descriptor)

    def filter(self, value):
        is_new = not self.seen.contains(value[1])
        self.seen.put(value[1], True)
        return is_new


class Sides(CoMapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map1(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return "side", value[0], self.count.value()

    def map2(self, value):
        return self.map1(value)


class Join(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.INT()))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.STRING()))

    def process_element1(self, value, ctx: "KeyedCoProcessFunction.Context"):
        self.left.add(value[1])
        for right in self.right:
            yield "join", ctx.get_current_key(), value[1], right

    def process_element2(self, value, ctx: "KeyedCoProcessFunction.Context"):
        self.right.add(value[1])
        for left in self.left.get():
            yield "join", ctx.get_current_key(), left, value[1]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection([(1, 3), (1, 5), (1, 7), (1, 4), (1, 5), (2, 3)])
keyed = pairs.key_by(lambda row: row[0])
names = env.from_collection(
    [(1, "one"), (3, "three")], type_info=Types.TUPLE([Types.INT(), Types.STRING()])
)
keyed.flat_map(CountWindowAverage()).print()
keyed.map(Total(), Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])).print()
keyed.filter(New()).map(lambda row: ("new", *row)).print()
connected = pairs.connect(names).key_by(lambda row: row[0], lambda row: row[0])
connected.map(Sides()).print()
connected.process(Join()).print()
result = env.execute("rich functions")
assert result.get_net_runtime() >= 0

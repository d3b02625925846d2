# mypy: ignore-errors
"""Looks up the rules of a broadcast stream for each record."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedBroadcastProcessFunction
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Match(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.STRING()))

    def process_element(self, value, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext):
        known = ctx.get_broadcast_state(RULES)
        self.waiting.update(value[0])
        yield value[0], known.get("limit"), "record"

    def process_broadcast_element(self, value, ctx: KeyedBroadcastProcessFunction.Context):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        yield "rule", ctx.get_broadcast_state(RULES).get("limit"), "rule"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
rules = env.from_collection([("limit", 7)], Types.TUPLE([Types.STRING(), Types.INT()]))
orders = env.from_collection([("a", 1), ("b", 2)])
matched = (
    orders.key_by(lambda order: order[0], key_type=Types.STRING())
    .connect(rules.broadcast(RULES))
    .process(Match(), output_type=Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()]))
)
# The order of the two streams is not determined, so print only fields that do not depend on it.
matched.map(lambda seen: (seen[0], seen[2])).print()
env.execute("broadcast state")

# mypy: ignore-errors
"""Partitions a stream in all ways, and unites the results."""

from pyflink.datastream import (
    Partitioner,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)


class Remainder(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


class Subtask(ProcessFunction):
    def __init__(self, how):
        self.how = how

    def open(self, runtime_context: RuntimeContext):
        self.index = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx: "ProcessFunction.Context"):
        yield self.how, self.index, value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_collection([0, 1, 2, 3]).name("numbers")
custom = numbers.partition_custom(Remainder(), lambda number: number).process(Subtask("custom"))
first = numbers.global_().process(Subtask("global"))
all_of_them = numbers.broadcast().process(Subtask("broadcast")).filter(lambda seen: seen[2] == 3)
in_turn = numbers.rebalance().process(Subtask("rebalance")).map(lambda seen: (seen[0], seen[2]))
scaled = numbers.rescale().map(lambda number: ("rescale", number))
custom.union(first, all_of_them, in_turn, scaled).print()
env.execute("partitioning")

# mypy: ignore-errors
"""Counts words, and prints each count once at the end."""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

LINES = ["To be, or not to be,--that is the question:--", "Whether 'tis nobler to be"]


def split(line):
    yield from line.split()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
counts = (
    env.from_collection(LINES)
    .flat_map(split)
    .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    .key_by(lambda pair: pair[0])
    .reduce(lambda one, other: (one[0], one[1] + other[1]))
)
counts.filter(lambda pair: pair[1] > 1).print()
env.execute("word count")

"""A job file with one slow keyed operator, which holds up the source."""

import asyncio

from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment

SLOW_S = 0.002


def parse(number: int) -> tuple[int, int]:
    """Return a number with its key."""
    return number % 1_000, number


async def slow(record: tuple[int, int]) -> tuple[int, int]:
    """Return the record after a wait, as a function with a remote lookup does."""
    await asyncio.sleep(SLOW_S)
    return record


environment = StreamExecutionEnvironment().set_parallelism(2)
environment.enable_checkpointing(1_000)
numbers = environment.from_source(GeneratorSource(lambda number: number)).name("Numbers")
parsed = numbers.rebalance().map(parse).name("Parse")
held_up = parsed.key_by(lambda record: record[0]).map(slow).name("Slow lookup")
held_up.rebalance().sink_to(lambda record: None).name("Out")
environment.execute("orders")

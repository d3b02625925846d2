# mypy: ignore-errors
"""Reads bounded inputs and ends: named rows, a number sequence, sums by key."""

import json

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

PEOPLE = [
    (1, '{"tel": 123, "country": "Germany"}'),
    (2, '{"tel": 135, "country": "China"}'),
    (3, '{"tel": 32, "country": "China"}'),
]


def show(ds, env):
    ds.print()
    env.execute()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
people = env.from_collection(
    collection=PEOPLE, type_info=Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()])
)


def country_and_tel(row):
    data = json.loads(row.info)
    return data["country"], data["tel"]


show(people.filter(lambda row: row.id == 1).map(lambda row: (row.id, row["info"])), env)
people = env.from_collection(
    collection=PEOPLE, type_info=Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()])
)
show(people.map(country_and_tel).key_by(lambda pair: pair[0]).sum(1), env)
sequence = env.from_source(
    NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "sequence", Types.LONG()
)
show(sequence.map(lambda number: (0, number)).key_by(lambda pair: pair[0]).max(1), env)

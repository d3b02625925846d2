"""The plan of a program, in Flink's shape."""

from __future__ import annotations

import json

from flinknet.datastream import CoMapFunction, StreamExecutionEnvironment


class Same(CoMapFunction):
    def map1(self, value: int) -> int:
        return value

    map2 = map1


def test_a_plan_names_operators_and_how_records_come_to_them() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    numbers = environment.from_collection([1]).name("numbers").set_description("a few")
    keyed = numbers.key_by(lambda value: value).map(str).name("text")
    numbers.connect(keyed).map(Same()).name("both").print()
    nodes = {node["type"]: node for node in json.loads(environment.get_execution_plan())["nodes"]}
    assert nodes["Source: numbers"] == {
        "id": 1, "type": "Source: numbers", "pact": "Data Source", "contents": "a few",
        "parallelism": 1,
    }  # fmt: skip
    (text,) = nodes["text"]["predecessors"]
    assert text == {"id": 1, "ship_strategy": "HASH", "side": "second"}
    first, second = nodes["both"]["predecessors"]
    assert first == {"id": 1, "ship_strategy": "REBALANCE", "side": "first"}
    assert second == {"id": nodes["text"]["id"], "ship_strategy": "FORWARD", "side": "second"}
    assert nodes["Sink: Print"]["pact"] == "Data Sink"

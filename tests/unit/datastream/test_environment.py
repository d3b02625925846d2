"""The execution environment: its defaults and its sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flinknet.datastream import (
    CollectionSource,
    CoMapFunction,
    GeneratorSource,
    StreamExecutionEnvironment,
)
from flinknet.errors import ConfigurationError


def test_settings_are_chained_and_read() -> None:
    environment = StreamExecutionEnvironment.get_execution_environment()

    assert environment.get_parallelism() == 1
    assert (
        environment.set_parallelism(3).set_max_parallelism(6).set_buffer_timeout(0) is environment
    )
    assert environment.get_parallelism() == 3
    environment.from_source(GeneratorSource(str, 1)).print()
    (vertex,) = environment.job_graph().vertices
    assert (vertex.parallelism, vertex.max_parallelism) == (3, 6)


def test_sources_have_names_and_their_own_parallelism() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(4)
    environment.from_source(GeneratorSource(str, 1)).print()
    environment.from_source(GeneratorSource(str, 1), name="numbers").print()
    environment.from_source(CollectionSource([1])).print()
    environment.from_collection({1: 2}.items()).name("pairs").set_parallelism(2).print()

    sources = [vertex for vertex in environment.job_graph().vertices if "Source" in vertex.name]

    assert [(vertex.name.split(" -> ")[0], vertex.parallelism) for vertex in sources] == [
        ("Source: Generator", 4),
        ("Source: numbers", 4),
        ("Source: Collection", 1),
        ("Source: pairs", 2),
    ]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: e.set_parallelism(0), "the parallelism is 0"),
        (lambda e: e.set_parallelism(True), "the parallelism is True"),
        (lambda e: e.set_max_parallelism(40_000), "choose 1 to 32768"),
        (lambda e: e.set_buffer_timeout("soon"), "buffer_timeout_ms is 'soon'"),
        (lambda e: e.from_source([1, 2]), "from_source needs a Source, not list"),
    ],
)
def test_wrong_setting(build: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(StreamExecutionEnvironment())


class Same(CoMapFunction):
    def map1(self, value: object) -> object:
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

"""The execution environment: defaults and where streams begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinknet.datastream import CollectionSource, GeneratorSource, StreamExecutionEnvironment
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

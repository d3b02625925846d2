"""A job graph: its requirements, and its serialization."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flinknet.datastream import PrintSink, StreamExecutionEnvironment
from flinknet.errors import ConfigurationError
from flinknet.graph.graph import JobGraph, JobVertex
from flinknet.operators.operators import Operator


def graph_of(parallelism: int = 2) -> JobGraph:
    """Return a graph of a source, a keyed map and a sink."""
    env = StreamExecutionEnvironment()
    env.set_parallelism(parallelism)
    numbers = env.from_collection(range(10))
    numbers.key_by(lambda number: number % 3).map(lambda number: number + 1).sink_to(PrintSink())
    return env.job_graph("numbers")


def vertex(identity: int, parallelism: int, group: str) -> JobVertex:
    return JobVertex(identity, f"v{identity}", parallelism, 128, group, ())


def test_subtasks_of_one_group_share_slots() -> None:
    graph = JobGraph(
        "job", (vertex(0, 2, "default"), vertex(1, 5, "default"), vertex(2, 3, "heavy")), ()
    )
    assert graph.slots_by_group() == {"default": 5, "heavy": 3}
    assert graph.slots_required() == 8


def test_a_graph_travels_with_its_functions() -> None:
    graph = graph_of()
    again = JobGraph.from_bytes(graph.to_bytes())
    assert again.name == "numbers"
    assert [vertex.name for vertex in again.vertices] == [vertex.name for vertex in graph.vertices]
    assert [edge.name for edge in again.edges] == [edge.name for edge in graph.edges]
    assert all(
        isinstance(operator.factory(), Operator)
        for vertex in again.vertices
        for operator in vertex.operators
    )


def test_each_subtask_has_functions_of_its_own() -> None:
    """An attribute of one must not be visible to another one in the same worker."""
    (first, *_) = graph_of().vertices
    one, other = first.own_operators(), first.own_operators()
    assert [operator.name for operator in one] == [operator.name for operator in first.operators]
    assert one[0].factory is not other[0].factory


def test_a_function_that_cannot_travel_is_named() -> None:
    lock = threading.Lock()

    def locked(number: int) -> Any:
        return lock, number

    env = StreamExecutionEnvironment()
    env.from_collection([1]).map(locked).name("with a lock").sink_to(PrintSink())
    with pytest.raises(
        ConfigurationError, match=r'operator "with a lock" cannot be sent .* in its open\(\)'
    ):
        env.job_graph("job").to_bytes()


def test_a_graph_that_cannot_travel_for_another_reason_is_named_itself() -> None:
    made = graph_of()
    graph = JobGraph("job", made.vertices, made.edges, (threading.Lock(),))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match='job "job" cannot be sent to the workers'):
        graph.to_bytes()


def test_bytes_of_something_else_are_refused() -> None:
    import pickle

    with pytest.raises(ConfigurationError, match="these bytes are a dict, not a job graph"):
        JobGraph.from_bytes(pickle.dumps({}))


def test_a_job_without_two_phase_sinks_has_nothing_to_commit() -> None:
    assert graph_of().two_phase_sinks() == []

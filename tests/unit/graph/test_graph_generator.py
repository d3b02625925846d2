"""From a program to a job graph: chains, names, partitionings, and refused programs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinknet.datastream import (
    CollectSink,
    CommitContext,
    Committer,
    ParquetSink,
    StreamExecutionEnvironment,
    TwoPhaseSink,
)
from flinknet.datastream.streams import DataStream
from flinknet.errors import ConfigurationError
from flinknet.graph.graph import JobGraph
from flinknet.graph.graph_generator import GraphDefaults, generate_job_graph
from flinknet.graph.transformation import REBALANCE, OperatorKind, StreamInput, Transformation
from flinknet.operators.operators import CallableSinkOperator, MapOperator
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.records.partitioner import AdaptiveRebalancePartitioner, HashPartitioner


@pytest.fixture
def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment().set_parallelism(2)


def numbers(environment: StreamExecutionEnvironment) -> DataStream:
    return environment.from_collection(range(10)).name("numbers").set_parallelism(2)


def same(value: int) -> int:
    return value


def names(graph: JobGraph) -> list[str]:
    return [vertex.name for vertex in graph.vertices]


def edges(graph: JobGraph) -> list[tuple[str, str, str]]:
    return [
        (graph.vertices[edge.source].name, edge.name, graph.vertices[edge.target].name)
        for edge in graph.edges
    ]


def test_forwarded_operators_share_a_task(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).map(same).filter(bool).print().name("out")

    graph = environment.job_graph("chained")

    assert names(graph) == ["Source: numbers -> Map -> Filter -> Sink: out"]
    assert graph.edges == ()
    assert [one.input for one in graph.vertices[0].operators] == [None, 0, 1, 2]
    assert [one.name for one in graph.vertices[0].operators] == ["numbers", "Map", "Filter", "out"]


def test_a_chain_is_a_tree(environment: StreamExecutionEnvironment) -> None:
    """Several operators behind one stay in its task.

    An edge names the operator that emits its records.
    """
    mapped = numbers(environment).map(same)
    mapped.filter(bool).print().name("a")
    mapped.print().name("b")
    mapped.key_by(same).reduce(max).print().name("c")

    graph = environment.job_graph()

    assert names(graph) == [
        "Source: numbers -> Map -> (Filter -> Sink: a, Sink: b)",
        "Reduce -> Sink: c",
    ]
    (edge,) = graph.edges
    assert (edge.source, edge.target, edge.name) == (0, 1, "HASH")
    assert graph.vertices[0].operators[edge.operator].name == "Map"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("key_by", "HASH"),
        ("key_by_columns", "COLUMN HASH"),
        ("rebalance", "REBALANCE"),
        ("rescale", "RESCALE"),
        ("shuffle", "SHUFFLE"),
        ("broadcast", "BROADCAST"),
        ("global_", "GLOBAL"),
    ],
)
def test_partitioned_streams_end_a_chain(
    environment: StreamExecutionEnvironment, how: str, expected: str
) -> None:
    arguments = {"key_by": (same,), "key_by_columns": ("n",)}.get(how, ())
    getattr(numbers(environment), how)(*arguments).map(same).print().name("out")

    graph = environment.job_graph()

    assert edges(graph) == [("Source: numbers", expected, "Map -> Sink: out")]
    assert graph.edges[0].pointwise is (expected == "RESCALE")
    partitioner = graph.edges[0].partitioner()
    partitioner.setup(2, subtask_index=1, parallelism=2)
    if expected == "COLUMN HASH":
        assert set(partitioner.cut(pa.record_batch({"n": range(1000)}))) == {0, 1}
    elif expected != "BROADCAST":
        assert {partitioner.select(number) for number in range(1000)} <= {0, 1}


@pytest.mark.parametrize("how", ["rebalance", "rescale"])
def test_adaptive_partitioning(environment: StreamExecutionEnvironment, how: str) -> None:
    """Row 55: each way of distributing records can take account of the load."""
    getattr(numbers(environment), how)(adaptive=True).map(same).print()

    (edge,) = environment.job_graph().edges

    assert edge.name == f"ADAPTIVE {how.upper()}"
    assert edge.pointwise is (how == "rescale")
    assert isinstance(edge.partitioner(), AdaptiveRebalancePartitioner)


def test_exchanges_are_pipelined(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).rebalance().map(same).key_by(same).reduce(max).print()

    modes = {edge.exchange_mode for edge in environment.job_graph().edges}

    assert modes == {ExchangeMode.PIPELINED_BOUNDED}


def test_a_blocking_exchange_is_refused() -> None:
    source = Transformation(OperatorKind.SOURCE, "a", partial(MapOperator, same), ())
    read = StreamInput(source, REBALANCE, ExchangeMode.BLOCKING)
    sink = Transformation(OperatorKind.SINK, "b", partial(CallableSinkOperator, print), (read,))

    with pytest.raises(ConfigurationError, match='"Source: a" to "Sink: b" is BLOCKING'):
        generate_job_graph("job", [source, sink], GraphDefaults())


def test_custom_partitioning(environment: StreamExecutionEnvironment) -> None:
    stream = numbers(environment).partition_custom(lambda key, count: key % count, lambda n: n + 1)
    stream.print()

    (edge,) = environment.job_graph().edges

    partitioner = edge.partitioner()
    partitioner.setup(2)
    assert edge.name == "CUSTOM"
    assert [partitioner.select(number) for number in range(4)] == [1, 0, 1, 0]


def test_another_parallelism_rebalances(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).map(same).set_parallelism(3).print().set_parallelism(3)

    assert edges(environment.job_graph()) == [
        ("Source: numbers", "REBALANCE", "Map -> Sink: Print")
    ]


def test_forward_is_chained_or_an_edge(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).forward().map(same).start_new_chain().forward().print().disable_chaining()

    graph = environment.job_graph()

    assert names(graph) == ["Source: numbers", "Map", "Sink: Print"]
    assert [edge.name for edge in graph.edges] == ["FORWARD", "FORWARD"]
    assert all(edge.pointwise for edge in graph.edges)


def test_disabled_chaining(environment: StreamExecutionEnvironment) -> None:
    """An operator that is not chained splits the chain on both sides."""
    numbers(environment).map(same).disable_chaining().filter(bool).print()

    assert names(environment.job_graph()) == ["Source: numbers", "Map", "Filter -> Sink: Print"]


def test_chaining_disabled_for_all(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).map(same).print()

    environment.disable_operator_chaining()

    assert names(environment.job_graph()) == ["Source: numbers", "Map", "Sink: Print"]


def test_another_max_parallelism_ends_a_chain(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).map(same).set_max_parallelism(64).print().set_max_parallelism(64)

    assert names(environment.job_graph()) == ["Source: numbers", "Map -> Sink: Print"]


def test_union_has_an_edge_per_input(environment: StreamExecutionEnvironment) -> None:
    first, second = numbers(environment), numbers(environment).map(same)
    first.union(second.broadcast(), second).map(same).print()

    assert edges(environment.job_graph()) == [
        ("Source: numbers", "FORWARD", "Map -> Sink: Print"),
        ("Source: numbers -> Map", "BROADCAST", "Map -> Sink: Print"),
        ("Source: numbers -> Map", "FORWARD", "Map -> Sink: Print"),
    ]


def test_slot_sharing_groups_are_inherited(environment: StreamExecutionEnvironment) -> None:
    """Flink: an operator is in the group of its inputs if they agree, else in the default one."""
    left = numbers(environment).slot_sharing_group("left")
    right = numbers(environment).map(same).set_parallelism(5).slot_sharing_group("right")
    left.map(same).print()
    left.union(right).map(same).print()
    right.print()

    graph = environment.job_graph()

    groups = {vertex.name: vertex.slot_sharing_group for vertex in graph.vertices}
    assert groups["Source: numbers -> Map -> Sink: Print"] == "left"
    assert groups["Map -> Sink: Print"] == "default"
    assert groups["Map"] == "right"
    assert graph.slots_by_group() == {"left": 2, "default": 2, "right": 5}
    assert graph.slots_required() == 9


def test_max_parallelism_decides_the_key_groups(environment: StreamExecutionEnvironment) -> None:
    """The hash partitioner must use the max parallelism of the operator that it feeds."""
    keyed = numbers(environment).key_by(same).reduce(max).set_parallelism(3).set_max_parallelism(3)
    keyed.print()

    edge = environment.job_graph().edges[0]

    partitioner = edge.partitioner()
    assert isinstance(partitioner, HashPartitioner)
    partitioner.setup(3)
    with pytest.raises(ConfigurationError, match="only 3 key groups"):
        edge.partitioner().setup(4)


def test_max_parallelism_decides_the_key_groups_of_columns(
    environment: StreamExecutionEnvironment,
) -> None:
    """Rows and records of one key thus go to one subtask.

    This holds for every edge into an operator.
    """
    rows = numbers(environment).key_by(same)
    columns = numbers(environment).map(same).key_by_columns("n")
    rows.union(columns).map(same).set_max_parallelism(7).print()

    by_row, by_column = (edge.partitioner() for edge in environment.job_graph().edges[:2])

    for partitioner in (by_row, by_column):
        with pytest.raises(ConfigurationError, match="only 7 key groups"):
            partitioner.setup(8)
        partitioner.setup(3)
    parts = by_column.cut(pa.record_batch({"n": range(100)}))
    assert {
        number: channel for channel, part in parts.items() for number in part["n"].to_pylist()
    } == {number: by_row.select(number) for number in range(100)}


@pytest.mark.parametrize(
    ("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (32768, 32768)]
)
def test_default_max_parallelism(parallelism: int, expected: int) -> None:
    environment = StreamExecutionEnvironment().set_parallelism(parallelism)
    environment.from_collection([]).set_parallelism(parallelism).print()

    assert environment.job_graph().vertices[0].max_parallelism == expected


def test_buffer_timeout_of_job_and_operator(environment: StreamExecutionEnvironment) -> None:
    environment.set_buffer_timeout(5)
    slow = numbers(environment)
    slow.rebalance().map(same).set_buffer_timeout("adaptive").rebalance().print()

    assert [edge.buffer_timeout_ms for edge in environment.job_graph().edges] == [5, "adaptive"]


def test_vertices_are_in_topological_order(environment: StreamExecutionEnvironment) -> None:
    late = numbers(environment)
    merged = numbers(environment).key_by(same).reduce(max).union(late.rebalance())
    merged.map(same).print()

    graph = environment.job_graph()

    assert [vertex.id for vertex in graph.vertices] == list(range(len(graph.vertices)))
    assert all(edge.source < edge.target for edge in graph.edges)


def test_graph_survives_its_bytes(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).map(lambda number: number + 1).key_by(same).reduce(max).print()
    graph = environment.job_graph("travels")

    copy = JobGraph.from_bytes(graph.to_bytes())

    assert (copy.name, names(copy), edges(copy)) == ("travels", names(graph), edges(graph))


def test_each_subtask_has_its_own_functions(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).sink_to(CollectSink())
    (vertex,) = environment.job_graph().vertices

    first, second = vertex.own_operators(), vertex.own_operators()

    assert first[1].factory.args[0] is not second[1].factory.args[0]  # type: ignore[attr-defined]


def test_executed_program_is_forgotten(environment: StreamExecutionEnvironment) -> None:
    stream = numbers(environment)
    stream.print().name("first")
    environment.job_graph(clear=True)

    stream.print().name("second")

    assert names(environment.job_graph()) == ["Source: numbers -> Sink: second"]


def test_operators_that_nothing_reads_run_and_sources_do_not(
    environment: StreamExecutionEnvironment,
) -> None:
    """As in Flink: a function may have done all its work when it returns."""
    numbers(environment).map(same).name("printing")
    environment.from_collection([1]).name("unread")

    assert names(environment.job_graph()) == ["Source: numbers -> printing"]


# -- refused programs ------------------------------------------------------------------------------


def test_job_without_operator(environment: StreamExecutionEnvironment) -> None:
    numbers(environment)

    with pytest.raises(ConfigurationError, match='job "empty" has no operators'):
        environment.job_graph("empty")


@pytest.mark.parametrize("name", ["\ud800", "\x1b[2J"])
def test_names_that_cannot_be_shown(environment: StreamExecutionEnvironment, name: str) -> None:
    numbers(environment).print().name(name)
    with pytest.raises(ConfigurationError, match=r"operator .* has control characters"):
        environment.job_graph()

    numbers(StreamExecutionEnvironment()).print()
    with pytest.raises(ConfigurationError, match=r"job .* has control characters"):
        environment.job_graph(name)


def test_forward_to_another_parallelism(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).forward().map(same).name("wide").set_parallelism(3).print()

    with pytest.raises(
        ConfigurationError, match=r'"Source: numbers" \(parallelism 2\) .* "wide" \(parallelism 3\)'
    ):
        environment.job_graph()


def test_parallelism_over_max_parallelism(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).map(same).name("wide").set_parallelism(5).set_max_parallelism(4).print()

    with pytest.raises(ConfigurationError, match=r'"wide" has parallelism 5, more than .* 4'):
        environment.job_graph()


def test_same_uid_twice(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).uid("state").map(same).uid("state").print()

    with pytest.raises(ConfigurationError, match='2 operators with the uid "state"'):
        environment.job_graph()


def test_same_output_of_two_sinks(environment: StreamExecutionEnvironment, tmp_path: Path) -> None:
    """Their subtasks would use the same names of files, and later files would replace the
    others."""
    numbers(environment).sink_to(ParquetSink(tmp_path / "out", ["n"]))
    numbers(environment).sink_to(ParquetSink(tmp_path / "other" / ".." / "out", ["n"]))

    with pytest.raises(ConfigurationError, match="2 operators with the output .*out"):
        environment.job_graph()


def test_sinks_with_an_output_each(environment: StreamExecutionEnvironment, tmp_path: Path) -> None:
    for name in ("one", "other"):
        numbers(environment).sink_to(ParquetSink(tmp_path / name, ["n"]))
        numbers(environment).sink_to(Anywhere())

    assert len(environment.job_graph().two_phase_sinks()) == 4


class Anywhere(TwoPhaseSink):
    """A sink that allows other sinks with the same output."""

    def write(self, records: list[Any]) -> None: ...

    def prepare_commit(self) -> None: ...

    def create_committer(self, context: CommitContext) -> Committer:
        raise NotImplementedError


def test_same_name_of_collect_sinks(environment: StreamExecutionEnvironment) -> None:
    numbers(environment).sink_to(CollectSink())
    numbers(environment).sink_to(CollectSink())

    with pytest.raises(ConfigurationError, match='collect sink name "Collect"'):
        environment.job_graph()


def test_function_that_cannot_travel_is_named(environment: StreamExecutionEnvironment) -> None:
    generator = (number for number in range(3))
    numbers(environment).map(lambda number: next(generator)).name("stuck").print()

    with pytest.raises(
        ConfigurationError, match=r'operator "stuck" cannot be sent .* cannot pickle'
    ):
        environment.job_graph().to_bytes()


def test_other_bytes_are_no_graph() -> None:
    import pickle

    with pytest.raises(ConfigurationError, match="are a list, not a job graph"):
        JobGraph.from_bytes(pickle.dumps([1]))

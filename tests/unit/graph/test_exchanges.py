"""Exchanges are named by the operators at their ends, and numbered on either side."""

from __future__ import annotations

from flinknet.checkpoint.metadata import Exchange
from flinknet.cluster.control.submission import Submission
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment
from flinknet.graph.exchanges import exchanges_of
from flinknet.graph.graph import JobGraph


def graph() -> JobGraph:
    environment = StreamExecutionEnvironment()
    source = environment.from_source(GeneratorSource(str, 1)).uid("source")
    mapped = source.map(str).uid("map")
    keyed = mapped.key_by(str).map(str).uid("keyed")
    keyed.print().uid("printed")
    mapped.rebalance().union(keyed.global_()).map(str).uid("both").print().uid("printed both")
    return environment.job_graph()


EXPECTED = (
    Exchange("map", None, "source", 0, "keyed", 0, 0, "HASH", False, False),
    Exchange("map", None, "source", 1, "both", 0, 0, "REBALANCE", False, False),
    Exchange("keyed", None, "keyed", 0, "both", 0, 1, "GLOBAL", False, False),
)


def test_each_edge_is_an_exchange() -> None:
    assert exchanges_of(graph()) == EXPECTED


def test_the_shape_of_a_job_is_enough() -> None:
    shape = Submission.from_bytes(Submission.of_graph(graph()).to_bytes()).shape
    assert exchanges_of(shape) == EXPECTED

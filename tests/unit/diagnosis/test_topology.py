"""Names, neighbours and siblings of tasks."""

from __future__ import annotations

from flinknet.diagnosis.topology import Exchange
from tests.unit.diagnosis.jobs import pipeline


def test_a_task_is_called_as_people_call_it() -> None:
    assert pipeline(1, 4).task_name((1, 2)) == "Sink (3/4)"


def test_a_vertex_has_its_inputs_and_outputs_in_order() -> None:
    topology = pipeline(1, 2, 1)
    first, second = topology.exchanges
    assert (topology.inputs(1), topology.outputs(1)) == ([first], [second])
    assert (topology.inputs(0), topology.outputs(2)) == ([], [])


def test_siblings_are_the_others() -> None:
    assert pipeline(1, 3).siblings((1, 1)) == [(1, 0), (1, 2)]


def test_exchanges_by_key_are_known_by_their_names() -> None:
    names = ("HASH", "COLUMN HASH", "REBALANCE")
    assert [Exchange(0, 1, name, ()).is_keyed for name in names] == [True, True, False]


def test_the_producers_of_a_task_are_those_whose_output_it_reads() -> None:
    assert pipeline(2, 3, 1).tasks() == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert pipeline(2, 3, 1).producers((1, 1)) == [(0, 0), (0, 1)]
    assert pipeline(2, 2, pointwise=True).producers((1, 1)) == [(0, 1)]
    assert pipeline(2, 3).producers((0, 1)) == []

"""Flame graphs, and Flink's older backpressure, in Flink's formats."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.cluster.coordinator.metrics.stack_sample_store import SampledVertex
from flinknet.cluster.coordinator.rest.flink.stacks_view import (
    FlameGraphType,
    flame_graph,
    sampled_backpressure,
)
from flinknet.metrics.stack_samples import Stack, StackSamples
from tests.unit.cluster.coordinator.rest.flink.jobs import ms, open_all, release, submitted


def sampled(*looks: tuple[int, bool]) -> SampledVertex:
    samples = StackSamples(10)
    samples.add_stack(Stack(0, True, ("run", "map")), 2)
    samples.add_stack(Stack(0, False, ("run", "map", "sleep")), 3)
    samples.add_stack(Stack(1, False, ("run", "emit")), 4)
    for index, is_backpressured in looks:
        samples.add_look(index, is_backpressured=is_backpressured)
    return SampledVertex(samples, 7.0, ms(7.0))


def node(name: str, value: int, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "value": value, "children": list(children)}


@pytest.mark.parametrize(
    ("kind", "index", "tree"),
    [
        (
            FlameGraphType.FULL,
            None,
            node("root", 9, node("run", 9, node("map", 5, node("sleep", 3)), node("emit", 4))),
        ),
        (FlameGraphType.ON_CPU, None, node("root", 2, node("run", 2, node("map", 2)))),
        (
            FlameGraphType.OFF_CPU,
            None,
            node("root", 7, node("run", 7, node("map", 3, node("sleep", 3)), node("emit", 4))),
        ),
        (FlameGraphType.FULL, 1, node("root", 4, node("run", 4, node("emit", 4)))),
        (FlameGraphType.ON_CPU, 1, node("root", 0)),
    ],
    ids=["all", "on-cpu", "off-cpu", "one-subtask", "nothing"],
)
def test_stacks_that_begin_alike_are_one_stem(
    kind: FlameGraphType, index: int | None, tree: dict[str, Any]
) -> None:
    _, record = submitted()
    assert flame_graph(record, sampled(), kind, index) == {"endTimestamp": ms(7.0), "data": tree}


def test_without_samples_flink_has_numbers_that_say_why() -> None:
    dispatcher, record = submitted()
    waiting = {"endTimestamp": -3, "data": None}
    assert flame_graph(record, None, FlameGraphType.FULL) == waiting
    open_all(dispatcher, record, 2.0)
    dispatcher.cancel(record, 3.0)
    release(dispatcher, record, 4.0)
    ended = {"endTimestamp": -1, "data": None}
    assert flame_graph(record, sampled(), FlameGraphType.FULL) == ended


def test_the_ratio_of_each_subtask_has_flinks_levels() -> None:
    _, record = submitted()
    looks = [(0, n < 1) for n in range(10)] + [(1, n < 5) for n in range(10)]
    told = sampled_backpressure(record, sampled(*looks))
    assert (told["status"], told["backpressure-level"]) == ("ok", "low")
    assert told["end-timestamp"] == ms(7.0)
    rows = [(one["subtask"], one["ratio"], one["backpressure-level"]) for one in told["subtasks"]]
    assert rows == [(0, 0.1, "ok"), (1, 0.5, "low")]
    (high,) = sampled_backpressure(record, sampled((0, True)))["subtasks"]
    assert (high["backpressure-level"], high["samples"]) == ("high", 1)


def test_without_samples_there_is_no_level() -> None:
    _, record = submitted()
    told = sampled_backpressure(record, None)
    assert (told["status"], told["backpressure-level"], told["subtasks"]) == (
        "deprecated",
        None,
        None,
    )
    assert sampled_backpressure(record, sampled())["backpressure-level"] == "ok"

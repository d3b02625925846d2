"""Diagnoses of slow functions name the right culprit, and no line contradicts another.

No other task may be named, the tasks that lose time must be backpressured, and no evidence may call
an abnormal value normal. The subtasks share a worker, with local channels, or are on two workers,
with credit.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from flinknet.common import RestartStrategies
from flinknet.datastream import DataStream, MapFunction, RuntimeContext
from flinknet.records.key_groups import key_group
from tests.integration.cluster_runs import LOOK_S
from tests.integration.test_diagnosis import (
    CONFIG,
    PATIENCE_S,
    SOURCE,
    Started,
    at_once,
    culprits,
    graph,
    losers,
    named,
    nothing,
    numbers,
    running,
    started_cluster,
)

pytestmark = pytest.mark.xdist_group("situations")

SLOW_S = 0.002
"""The time that a slow function takes for a record."""

Function = Callable[[Any], Any]


async def awaits(record: Any) -> Any:
    """Wait, as a request to a service does."""
    await asyncio.sleep(SLOW_S)
    return record


def blocks(record: Any) -> Any:
    """Block, as a database driver does."""
    time.sleep(SLOW_S)
    return record


def computes(record: Any) -> Any:
    """Compute, as a model does, for a fixed CPU time, however busy the machine is."""
    until = time.thread_time() + SLOW_S
    while time.thread_time() < until:
        pass
    return record


KINDS = [awaits, blocks, computes]


class Situation(NamedTuple):
    """A job, and its expected diagnosis."""

    stream: DataStream
    kind: str
    culprits: set[str]
    losers: set[str]
    """Tasks that may lose time; at least one does."""


def slow_sink(slow: Function) -> Situation:
    stream = numbers().rebalance().map(at_once).name("middle").slot_sharing_group("middle")
    stream.rebalance().sink_to(slow).name("last").slot_sharing_group("last")
    return Situation(stream, "SLOW_OPERATOR", {"Sink: last (1/1)"}, {SOURCE, "middle (1/1)"})


def slow_in_the_middle(slow: Function) -> Situation:
    stream = numbers().rebalance().map(slow).name("middle").slot_sharing_group("middle")
    stream.rebalance().sink_to(nothing).name("last").slot_sharing_group("last")
    return Situation(stream, "SLOW_OPERATOR", {"middle (1/1)"}, {SOURCE})


def skewed_by_key(slow: Function) -> Situation:
    hot = 7
    keyed = numbers().key_by(lambda record: hot if record[0] % 20 else record[0])
    stream = keyed.map(slow).name("keyed").set_parallelism(2).slot_sharing_group("keyed")
    stream.sink_to(nothing).set_parallelism(2).name("out")
    place = key_group(hot, 128) * 2 // 128
    return Situation(stream, "SKEW_BY_KEY", {f"keyed -> Sink: out ({place + 1}/2)"}, {SOURCE})


def skewed_by_source(slow: Function) -> Situation:
    stream = numbers(parallelism=2).filter(lambda record: record[0] % 2 == 0).name("even")
    stream = stream.set_parallelism(2).slot_sharing_group("sources")
    stream.rescale().sink_to(slow).set_parallelism(2).name("out").slot_sharing_group("out")
    losing = {"Source: numbers -> even (1/2)"}
    return Situation(stream, "SKEW_BY_SOURCE", {"Sink: out (1/2)"}, losing)


def slow_in_parallel(slow: Function) -> Situation:
    stream = numbers()
    stream.rebalance().sink_to(slow).set_parallelism(4).name("out").slot_sharing_group("out")
    every = {f"Sink: out ({number}/4)" for number in range(1, 5)}
    return Situation(stream, "SLOW_OPERATOR", every, {SOURCE})


def two_culprits(slow: Function) -> Situation:
    stream = numbers()
    for name in ("one", "other"):
        stream.rebalance().sink_to(slow).name(name).slot_sharing_group(name)
    both = {"Sink: one (1/1)", "Sink: other (1/1)"}
    return Situation(stream, "SLOW_OPERATOR", both, {SOURCE})


def amplification(slow: Function) -> Situation:
    """Return a job with input records so large that a buffer has few of them."""
    stream = numbers().map(lambda record: "x" * 2_000).slot_sharing_group("sources").rebalance()
    many = stream.flat_map(lambda record: range(1_000)).name("multiply")
    many = many.slot_sharing_group("multiply")
    many.rebalance().sink_to(slow).name("out").slot_sharing_group("out")
    losing = {"Source: numbers -> Map (1/1)", "multiply (1/1)"}
    return Situation(stream, "AMPLIFICATION", {"multiply (1/1)"}, losing)


@pytest.fixture(scope="module", params=[1, 2], ids=["shared", "apart"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Started]:
    """A cluster for all tests with this number of workers."""
    slots = replace(CONFIG.cluster, workers=request.param, slots_per_worker=8 // request.param)
    with started_cluster(replace(CONFIG, cluster=slots)) as started:
        yield started


def contradictions(told: Any, situation: Situation) -> list[str]:
    """Return the contradictions between a diagnosis and the situation."""
    findings = told["findings"]
    rows = {row["task"]["name"]: row for row in told["tasks"]}
    found = [f"{one['kind']} is found" for one in findings if one["kind"] != situation.kind]
    blamed = {name for finding in findings for name in culprits(finding)}
    if blamed != situation.culprits:
        found.append(f"{blamed} are blamed")
    lost = {name for finding in findings for name in losers(finding)}
    if not (lost and lost <= situation.losers):
        found.append(f"{lost} have lost")
    found += [
        f"{name} is blamed, and {rows[name]['sentences']}"
        for name in blamed & rows.keys()
        if rows[name]["meaning"] not in ("BOTTLENECK", "PASSED_ON")
    ]
    for name in lost & rows.keys():
        row = rows[name]
        if row["level"] == "OK" or row["meaning"] not in ("BACKPRESSURED", "PASSED_ON"):
            found.append(f"{name} has lost time, is {row['level']}, and {row['sentences']}")
        shares = [one["share"] for one in every(findings, "lost") if one["task"]["name"] == name]
        if sum(shares) > row["backpressured"] + 0.001:
            found.append(f"{name} has lost {shares}, and was backpressured {row['backpressured']}")
    lines = every(findings, "evidence")
    return found + [line for line in lines if line.endswith(("normal", "on its way"))]


def every(findings: list[Any], field: str) -> list[Any]:
    return [one for finding in findings for one in finding[field]]


@pytest.mark.parametrize("slow", KINDS)
@pytest.mark.parametrize(
    "situation",
    [
        slow_sink,
        slow_in_the_middle,
        skewed_by_key,
        skewed_by_source,
        slow_in_parallel,
        two_culprits,
        amplification,
    ],
)
async def test_the_right_one_is_named_and_no_line_contradicts(
    cluster: Started, situation: Callable[[Function], Situation], slow: Function
) -> None:
    produced = situation(slow)
    told: Any = {}
    async with running(cluster, graph(produced.stream)) as diagnose:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not told or contradictions(told, produced):
                    await asyncio.sleep(LOOK_S)
                    told = await diagnose()
        except TimeoutError:
            raise AssertionError(f"{contradictions(told, produced)} in {told}") from None


class Collects(MapFunction):
    """A function with many objects that collects garbage for each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._kept = [[number] for number in range(100_000)]

    def map(self, value: Any) -> Any:
        gc.collect()
        return value


async def test_garbage_collections_are_named_with_the_code_that_begins_them(
    cluster: Started,
) -> None:
    stream = numbers().rebalance().map(Collects()).name("middle").slot_sharing_group("middle")
    stream.sink_to(nothing).name("out")
    name = "middle -> Sink: out (1/1)"
    finding = await named(cluster, graph(stream), "GARBAGE_COLLECTION", name)
    assert any(line.startswith("generation 2: ") for line in finding["evidence"])


async def test_a_job_that_fails_again_and_again_is_said_to_restart(cluster: Started) -> None:
    async def fail(record: Any) -> Any:
        await asyncio.sleep(0.05)
        raise ValueError("on purpose")

    stream = numbers().rebalance().map(fail).name("middle").slot_sharing_group("middle")
    environment: Any = stream.get_execution_environment()
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(10_000, 50))
    stream.sink_to(nothing).name("out")
    name = "middle -> Sink: out (1/1)"
    finding = await named(cluster, graph(stream), "RESTARTS", name)
    assert finding["sentence"].startswith("the job restarts every ")
    assert "ValueError: on purpose" in finding["sentence"]

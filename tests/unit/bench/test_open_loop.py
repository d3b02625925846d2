"""Load with intended send times: sending, measuring, and noticing faults."""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable
from itertools import count
from time import monotonic_ns

import pytest

from bench.errors import BenchError, UnavailableError
from bench.exchange.cases import CASES
from bench.harness import open_loop
from bench.harness.alarm import Alarm
from bench.harness.case import Tally
from bench.harness.open_loop import (
    TICK_NS,
    ArrivalTimes,
    Load,
    StampedFeed,
    load_parameters,
    measure_load,
)
from bench.harness.pinning import choose_pinning
from bench.harness.system import Contestant, System
from bench.harness.trial import Plan
from bench.peers import pyzmq, stream
from bench.timeouts.system import SYSTEM as FLINKNET
from tests.unit.bench.faulty_systems import CORRUPTING, LOSING

TUPLE = CASES[0]
BLOCK = [(key, 0, key / 2) for key in range(10)]
SECOND_NS = 1_000_000_000
SHORT = Plan(runs=1, seconds=0.2, warm_up_s=0.01)
"""Longer than a process waits for its turn on a machine with other tests."""


@pytest.fixture
def overdue(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Load]:
    """Make a load that is all due, and ended this long ago; meanwhile its clock stands still."""
    now_ns = monotonic_ns()
    monkeypatch.setattr(open_loop, "monotonic_ns", lambda: now_ns)

    def load(records_per_s: float, ticks: int = 10, warm_up: int = 0, late_ns: int = 0) -> Load:
        end_ns = now_ns - late_ns
        begin_ns = end_ns - ticks * TICK_NS
        return Load(begin_ns, begin_ns + warm_up * TICK_NS, end_ns, records_per_s)

    return load


def per_tick(records: float) -> float:
    return records * SECOND_NS / TICK_NS


def test_as_many_are_sent_as_are_due_each_at_the_beginning_of_a_tick() -> None:
    load = Load(0, 0, monotonic_ns(), per_tick(2.5))
    bursts = [burst for burst, _ in zip(load.bursts(1000), range(100), strict=False)]
    assert [at_ns for at_ns, _ in bursts] == [tick * TICK_NS for tick in range(100)]
    assert [count for _, count in bursts] == [2, 3] * 50


def test_ticks_in_which_nothing_is_due_are_left_out(overdue: Callable[..., Load]) -> None:
    load = overdue(per_tick(0.25), ticks=100)
    bursts = list(load.bursts(1000))
    assert [at_ns - load.begin_ns for at_ns, _ in bursts] == [
        tick * TICK_NS for tick in range(3, 100, 4)
    ]
    assert {count for _, count in bursts} == {1}


def test_a_burst_longer_than_the_block_is_sent_in_pieces_of_the_same_time(
    overdue: Callable[..., Load],
) -> None:
    load = overdue(per_tick(25), ticks=1)
    assert list(load.bursts(10)) == [(load.begin_ns, count) for count in (10, 10, 5)]


def test_the_records_of_a_producer_that_is_late_carry_the_times_that_were_meant(
    overdue: Callable[..., Load],
) -> None:
    load = overdue(per_tick(3))
    blocks = list(StampedFeed(load, BLOCK))
    records = [record for block in blocks for record in block]
    assert [at_ns for _, at_ns, _ in records] == [
        load.begin_ns + tick * TICK_NS for tick in range(10) for _ in range(3)
    ]
    assert [(key, weight) for key, _, weight in records] == [
        (number % 10, number % 10 / 2) for number in range(30)
    ]


def test_a_system_that_is_hopelessly_late_is_given_up_once_something_is_measured(
    overdue: Callable[..., Load],
) -> None:
    load = overdue(per_tick(3), warm_up=4, late_ns=SECOND_NS)
    assert [at_ns for at_ns, _ in load.bursts(1000)] == [
        load.begin_ns + tick * TICK_NS for tick in range(5)
    ]


async def test_both_ways_to_loop_hand_out_the_same_and_count_it(
    overdue: Callable[..., Load],
) -> None:
    load = overdue(per_tick(3))
    plain, awaited = StampedFeed(load, BLOCK), StampedFeed(load, BLOCK)
    blocks = list(plain)
    assert [block async for block in awaited] == blocks
    records = [record for block in blocks for record in block]
    tally = Tally(len(records), sum(at_ns for _, at_ns, _ in records))
    assert plain.tally() == awaited.tally() == tally


def test_a_feed_says_how_late_it_was_after_the_warm_up(overdue: Callable[..., Load]) -> None:
    load = overdue(per_tick(1), ticks=4, warm_up=3, late_ns=TICK_NS)
    feed = StampedFeed(load, BLOCK)
    list(feed)
    assert feed.observations()["handed_out_late_us"]["p50"] >= 2 * TICK_NS / 1000


def test_without_a_load_records_carry_the_time_at_which_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin_ns = monotonic_ns() - SECOND_NS
    monkeypatch.setattr(open_loop, "monotonic_ns", count(begin_ns, TICK_NS).__next__)
    feed = StampedFeed(Load(begin_ns, begin_ns, begin_ns + 10 * TICK_NS, None), BLOCK)
    blocks = list(feed)
    assert all(len(block) == len(BLOCK) for block in blocks)
    times = [at_ns for block in blocks for _, at_ns, _ in block]
    assert times == sorted(times)
    assert begin_ns <= times[0] < times[-1] < begin_ns + 10 * TICK_NS


def test_latencies_are_of_the_records_meant_for_the_measured_time() -> None:
    since_ns = monotonic_ns() - SECOND_NS
    times = ArrivalTimes(since_ns)
    meant = (since_ns - 1, since_ns, since_ns + SECOND_NS // 2)
    assert [times((0, at_ns, 0.0)) for at_ns in meant] == list(meant)
    seen = times.observations()
    assert seen["measured_records"] == 2
    assert seen["measured_s"] >= 1.0
    assert seen["latency_us"]["p99"] >= 1e6 > seen["latency_us"]["p50"] >= 0.5e6


def test_that_nothing_was_measured_is_said() -> None:
    with pytest.raises(BenchError, match="nothing was measured"):
        ArrivalTimes(0).observations()


def test_a_load_can_be_sent_to_a_process_and_begins_after_that() -> None:
    now_ns = monotonic_ns()
    load = Load.soon(1000.0, Plan(runs=1, seconds=2.0, warm_up_s=0.5))
    assert pickle.loads(pickle.dumps(load)) == load
    assert load.begin_ns > now_ns
    assert (load.since_ns - load.begin_ns, load.end_ns - load.since_ns) == (
        SECOND_NS // 2,
        2 * SECOND_NS,
    )
    assert load.length_s >= 2.5


def test_a_row_says_how_much_of_the_load_came_through() -> None:
    assert load_parameters(2000.04, 1500.0) == {"load_records_per_s": 2000.0, "kept": 0.75}


@pytest.mark.parametrize(
    ("system", "variant"),
    [(FLINKNET, "0, credit on"), (FLINKNET, "-1, credit off"), (stream.SYSTEM, "record")],
    ids=lambda named: named if isinstance(named, str) else named.name,
)
@pytest.mark.parametrize("load", [10_000.0, None])
def test_every_record_arrives_with_its_time(
    system: System, variant: str, load: float | None
) -> None:
    measured = measure_load(Contestant(system, variant), load, TUPLE, SHORT, choose_pinning())
    assert measured.verified
    assert measured.latency_us["p99.9"] >= measured.latency_us["p50"] > 0
    if load is not None:
        assert measured.records == pytest.approx(load * SHORT.seconds, abs=2 * load * TICK_NS / 1e9)


def test_a_producer_that_blocks_can_carry_a_load() -> None:
    contestant = Contestant(pyzmq.SYSTEM, "record")
    assert measure_load(contestant, 10_000.0, TUPLE, SHORT, choose_pinning()).verified


@pytest.mark.parametrize("system", [LOSING, CORRUPTING], ids=lambda system: system.name)
def test_a_system_that_does_not_deliver_is_not_verified(system: System) -> None:
    contestant = Contestant(system, "record")
    assert not measure_load(contestant, 10_000.0, TUPLE, SHORT, choose_pinning()).verified


async def test_an_alarm_never_rings_early() -> None:
    with Alarm() as alarm:
        for wait_ns in (50_000, 1_000_000, -1):
            at_ns = monotonic_ns() + wait_ns
            alarm.block_until(at_ns)
            assert monotonic_ns() >= at_ns
            at_ns = monotonic_ns() + wait_ns
            await alarm.wait_until(at_ns)
            assert monotonic_ns() >= at_ns


async def test_the_event_loop_goes_on_until_an_alarm_rings() -> None:
    with Alarm() as alarm:
        waiting = asyncio.create_task(alarm.wait_until(monotonic_ns() + 3600 * SECOND_NS))
        for _ in range(100):
            await asyncio.sleep(0)
            assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


def test_there_is_no_alarm_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnavailableError, match="open-loop load needs Linux's timerfd"):
        Alarm()

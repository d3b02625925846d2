"""The records, checks and counts of the family ``scale``."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from itertools import chain

import pytest

from bench.harness.process import Clocks
from bench.scale.consumer import ChannelCheck
from bench.scale.family import make_channels_row
from bench.scale.footprint import Footprint, take_footprint
from bench.scale.setting import Account, Setting
from bench.scale.stopwatch import Stopwatch
from bench.scale.subtasks import SUBTASKS, job, totals
from bench.scale.trial import MACHINERY_MAX, Outcome
from flinknet import RecordBatch

SETTING = Setting(channels=3, records=10_000, buffer_timeout_ms=-1)


def test_every_channel_gets_its_records_in_order_and_all_of_them() -> None:
    records = list(chain.from_iterable(SETTING.blocks()))
    assert len(records) == 10_000
    for channel in range(3):
        numbers = [number for where, number in records if where == channel]
        assert numbers == list(range(SETTING.records_of(channel)))


def test_the_memory_is_enough_for_both_ends() -> None:
    config = SETTING.config
    assert config.segments >= max(
        SETTING.channels + 1, SETTING.channels * config.buffers_per_channel
    )


def batch(channel: int, *numbers: int) -> RecordBatch:
    return RecordBatch(tuple((channel, number) for number in numbers), channel, 0)


def test_a_check_is_complete_with_the_last_record_of_every_channel() -> None:
    check = ChannelCheck(Setting(channels=2, records=5, buffer_timeout_ms=-1))
    for one in (batch(0, 0, 1), batch(1, 0), batch(0, 2)):
        check.take(one)
    assert not check.complete
    check.take(batch(1, 1))
    assert check.complete
    assert check.in_order
    assert (check.records, check.batches) == (5, 4)


@pytest.mark.parametrize(
    "wrong",
    [batch(0, 1), batch(0, 0, 0), RecordBatch(((1, 0),), 0, 0)],
    ids=["gap", "twice", "other"],
)
def test_a_check_notices_what_does_not_belong_there(wrong: RecordBatch) -> None:
    check = ChannelCheck(SETTING)
    check.take(wrong)
    assert not check.in_order


async def test_a_footprint_counts_tasks_timers_and_sockets() -> None:
    before = take_footprint()
    task = asyncio.create_task(asyncio.Event().wait())
    timer = asyncio.get_running_loop().call_later(60, print)
    with socket.socket():
        during = take_footprint()
    timer.cancel()
    task.cancel()
    counts = zip(before.machinery, during.machinery, strict=True)
    assert [after - earlier for earlier, after in counts] == [1, 1, 1]
    assert during.resident_bytes > 1 << 20


async def test_a_stopwatch_leaves_out_the_footprint() -> None:
    watch = Stopwatch()
    begun = Clocks.read()
    watch.take_footprint()
    taken = Clocks.read() - begun
    assert watch.read().cpu < taken.cpu


FOOTPRINT = Footprint(resident_bytes=1_000_000, tasks=1, timers=0, sockets=2)


def run(
    channels: int,
    *,
    cpu_s: float = 1.0,
    idle_bytes: int = 0,
    in_order: bool = True,
    received: int = 10_000,
    carrying: Footprint = FOOTPRINT,
) -> Outcome:
    idle = FOOTPRINT._replace(resident_bytes=1_000_000 + idle_bytes)
    sent = Account(True, 10_000, 50, Clocks(1.0, cpu_s / 4), FOOTPRINT, idle, FOOTPRINT)
    taken = Account(in_order, received, 40, Clocks(2.0, cpu_s * 3 / 4), FOOTPRINT, idle, carrying)
    return Outcome(replace(SETTING, channels=channels), sent, taken)


def test_a_row_says_what_a_channel_costs() -> None:
    one, many = [run(1, cpu_s=1.0)], [run(1_001, cpu_s=3.0, idle_bytes=1_001 * 500)]
    row = make_channels_row("channels-1001", many, one, {})
    assert row.records_per_s == 5_000
    assert row.cpu_s_per_million_records == 300
    assert row.parameters["bytes_per_idle_channel"] == 1_000
    assert row.parameters["us_per_active_channel"] == 2_000
    assert row.parameters["records_per_buffer"] == 250
    assert row.parameters["sockets"] == [4, 4, 4]
    assert row.verified


def test_few_channels_cost_nothing_that_could_be_measured() -> None:
    parameters = make_channels_row("channels-3", [run(3)], [run(1)], {}).parameters
    assert parameters["bytes_per_idle_channel"] is None
    assert parameters["us_per_active_channel"] is None


@pytest.mark.parametrize(
    "wrong",
    [
        run(3, in_order=False),
        run(3, received=9_999),
        run(3, carrying=FOOTPRINT._replace(tasks=FOOTPRINT.tasks + MACHINERY_MAX + 1)),
    ],
)
def test_loss_disorder_and_machinery_for_each_channel_are_not_verified(wrong: Outcome) -> None:
    assert run(3).verified
    assert not wrong.verified


def test_the_job_has_its_subtasks_and_known_totals() -> None:
    assert sum(vertex.parallelism for vertex in job(10).vertices) == SUBTASKS
    assert totals(3) == [(0, 1, 0), (1, 1, 1), (2, 1, 2)]
    assert totals(2_500)[499:501] == [(499, 3, 499 + 1499 + 2499), (500, 2, 500 + 1500)]

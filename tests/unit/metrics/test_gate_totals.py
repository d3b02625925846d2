"""Sums over the channels of a gate, read at once or over several turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import MetricsConfig
from flinknet.consumer.input_channel import (
    InputChannelStatistics,
    PartitionLocation,
    UnknownLocation,
)
from flinknet.consumer.input_gate import InputGate
from flinknet.metrics.gate_totals import ChannelSums, GateTotals
from flinknet.metrics.turns import Turns
from tests.unit.arrangements import HERE, THERE, deliver, make_config, make_gate, make_remote_gate
from tests.unit.metrics.samples import channel, gate, pool


def turns_of(channels: int) -> Turns:
    """Return turns of this many channels each, without a limit of time."""
    return Turns(MetricsConfig(turn_channels=channels), lambda: 0.0)


def test_a_gate_sums_up_its_channels() -> None:
    remote: dict[str, Any] = {"exclusive_total": 2, "exclusive_free": 2, "floating_free": 1}
    totals = gate(
        channel(0, queued_buffers=3, queued_bytes=30, backlog=4, buffers_in=5, bytes_in=50),
        channel(1, unannounced_credit=1, buffers_in=6, bytes_in=60, **remote),
        channel(2, "local", queued_buffers=2, buffers_in=7, bytes_in=70),
        floating_pool=pool(in_use=3),
    )
    assert (totals.channels, totals.queued_buffers, totals.queued_bytes) == (3, 5, 30)
    assert (totals.backlog, totals.credit_announced, totals.credit_unannounced) == (4, 2, 1)
    assert (totals.exclusive_buffers, totals.exclusive_in_use, totals.floating_in_use) == (2, 0, 2)
    assert (totals.buffers_in_remote, totals.buffers_in_local) == (11, 7)
    assert (totals.bytes_in_remote, totals.bytes_in_local) == (110, 70)
    assert totals.buffered_bytes == 30 + 4 * 10


def test_channels_that_are_short_of_credit_are_counted_one_by_one() -> None:
    free: dict[str, Any] = {"exclusive_total": 2, "exclusive_free": 2, "floating_free": 3}
    hot: dict[str, Any] = {
        "unannounced_credit": 4,
        "held_credit": 4,
        "backlog": 4,
        "is_short": True,
    }
    totals = gate(channel(0, **free, **hot), channel(1, **free), channel(2, "local", backlog=9))
    assert (totals.remote_channels, totals.channels_short, totals.backlog) == (2, 1, 4)
    assert (totals.exclusive_held, totals.floating_held, totals.credit_held) == (2, 2, 4)


def test_the_sums_of_parts_are_those_of_all() -> None:
    counts = [{"queued_buffers": number, "buffers_in": 10 * number} for number in range(5)]
    channels = [
        channel(number, "local" if number % 2 else "remote", **count)
        for number, count in enumerate(counts)
    ]
    whole = ChannelSums.of(channels)
    assert ChannelSums().plus(ChannelSums.of(channels[:2])).plus(ChannelSums.of(channels[2:])) == (
        whole
    )
    assert (whole.channels, whole.queued_buffers, whole.buffers_in_local) == (5, 10, 40)


def test_a_wide_gate_is_read_in_parts_each_channel_once() -> None:
    wide, _ = make_remote_gate(7)
    deliver(wide.remote_channels[5], 0, b"data", backlog=3)
    noted: list[InputChannelStatistics] = []
    turns, parts = turns_of(3), list[int]()

    def note(name: str, channels: Sequence[InputChannelStatistics]) -> None:
        noted.extend(channels)
        parts.append(len(channels))

    totals = turns.at_once(GateTotals.reading(wide, turns, note))
    assert parts == [3, 3, 1]
    assert [one.channel for one in noted] == list(range(7))
    assert totals == GateTotals.of(
        "gate",
        False,
        wide.pool_statistics(),
        None,
        ChannelSums.of(wide.statistics().channels),
    )
    assert (totals.channels, totals.queued_buffers, totals.backlog) == (7, 1, 3)
    wide.release()


def test_a_gate_that_is_closed_between_two_parts_is_read_to_its_end() -> None:
    wide, _ = make_remote_gate(4)
    for one in wide.remote_channels:
        deliver(one, 0)
    turns = turns_of(2)
    reading = GateTotals.reading(wide, turns)
    next(reading)
    wide.release()
    turns.begin()
    totals = turns.at_once(reading)
    assert (totals.channels, totals.queued_buffers) == (4, 2), "two were read before"
    assert (totals.floating_pool.in_use, totals.floating_in_use) == (0, 0)
    assert 0 <= totals.exclusive_in_use <= totals.exclusive_buffers


def test_a_channel_that_gets_its_place_between_two_parts_is_read_as_it_is_then() -> None:
    network = NetworkBufferPool(64, 64)
    places: list[PartitionLocation | UnknownLocation] = [
        PartitionLocation(THERE, "p0", 0),
        UnknownLocation("p1", 0),
    ]
    wide = InputGate("gate", places, HERE, network, make_config())
    wide.setup(lambda: None)
    kinds: list[str] = []
    turns = turns_of(1)
    reading = GateTotals.reading(
        wide, turns, lambda name, channels: kinds.extend(one.kind for one in channels)
    )
    next(reading)
    wide.update_channel(1, PartitionLocation(THERE, "p1", 0))
    turns.begin()
    totals = turns.at_once(reading)
    assert kinds == ["remote", "remote"]
    assert (totals.channels, totals.exclusive_buffers) == (2, 4)
    wide.release()


def test_no_more_floating_buffers_hold_data_than_the_pool_has_given_out() -> None:
    """A channel's buffer may return to the pool after the channel was read and before the pool is.

    The channels then seem to have more free buffers than the pool has given out.
    """
    narrow, _ = make_gate(THERE, HERE, buffers_per_channel=0)
    [remote] = narrow.remote_channels
    remote.on_backlog(3)
    turns = turns_of(1)
    reading = GateTotals.reading(narrow, turns)
    next(reading)
    remote.release()
    totals = turns.at_once(reading)
    assert (totals.credit_announced + totals.credit_unannounced, totals.floating_in_use) == (3, 0)
    narrow.release()


async def test_a_loop_has_turns_while_a_wide_gate_is_read() -> None:
    wide, _ = make_remote_gate(1_000, segments=1_010, buffers_per_channel=1)
    turn, read = 0, dict[int, int]()

    def note(name: str, channels: Sequence[InputChannelStatistics]) -> None:
        read[turn] = read.get(turn, 0) + len(channels)

    turns = turns_of(64)
    reading = asyncio.create_task(turns.go_through(GateTotals.reading(wide, turns, note)))
    while not reading.done():
        await asyncio.sleep(0)
        turn += 1
    assert list(read.values()) == [64] * 15 + [40]
    assert (await reading).channels == 1_000
    wide.release()

"""The channels with the longest queues, selected while all are read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flinknet.config import MetricsConfig
from flinknet.consumer.input_channel import InputChannelStatistics
from flinknet.metrics.busiest_channels import BusiestChannels, ChannelRow
from flinknet.metrics.turns import Turns
from tests.unit.metrics.samples import channel

Gate = tuple[str, Sequence[InputChannelStatistics]]


def picked(
    channels_max: int, *tasks: Sequence[Gate], throughput: float | None = None
) -> Sequence[ChannelRow]:
    busiest = BusiestChannels(channels_max)
    for gates in tasks:
        for gate, channels in gates:
            busiest.note(gate, channels)
        busiest.end_task(throughput)
    turns = Turns(MetricsConfig(turn_channels=1))
    return turns.at_once(busiest.reading(turns))


@pytest.mark.parametrize("apart", [False, True])
def test_the_busiest_come_first_and_no_more_than_asked_for(*, apart: bool) -> None:
    one = "one", [channel(0, queued_buffers=1), channel(1, backlog=9)]
    other = "other", [channel(0, queued_buffers=2, backlog=3)]
    tasks = ([one], [other]) if apart else ([one, other],)
    rows = picked(2, *tasks)
    assert [(row.gate, row.channel.channel) for row in rows] == [("one", 1), ("other", 0)]
    assert picked(0, *tasks) == ()


def test_of_as_many_the_first_ones_stay() -> None:
    rows = picked(2, [("gate", [channel(number, backlog=1) for number in range(4)])])
    assert [row.channel.channel for row in rows] == [0, 1]


def test_a_channel_takes_as_long_as_its_task_reads_of_all_its_gates_meanwhile() -> None:
    task = [
        ("one", [channel(0, queued_bytes=100), channel(1, queued_bytes=300)]),
        ("other", [channel(0, queued_bytes=200)]),
    ]
    rows = picked(3, task, [("far", [channel(0, queued_bytes=10**6)])], throughput=1_000.0)
    assert [(row.gate, row.buffered_bytes, row.time_to_consume_ms) for row in rows] == [
        ("one", 100, 300.0),
        ("one", 300, 600.0),
        ("other", 200, 500.0),
    ]


def test_how_long_a_channel_takes_is_not_known_before_anything_was_taken() -> None:
    [row] = picked(1, [("gate", [channel(0, queued_bytes=100)])])
    assert row == ChannelRow("gate", channel(0, queued_bytes=100), 100, None)

"""The records and channels of the family ``channels``, and its printed ratios."""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from bench.channels.family import ChannelsFamily, floors
from bench.channels.system import CASES, CHANNELS, SKEW, SYSTEM, TIMEOUTS_MS, SkewedPartitioner
from bench.harness.flinknet_system import (
    CONSUME,
    EMIT,
    Ends,
    FlinknetConsumer,
    FlinknetProducer,
)
from bench.harness.row import Row, median_row
from bench.harness.side import Round
from flinknet import NetworkConfig, NetworkEnvironment, RebalancePartitioner
from flinknet.consumer.buffer_manager import gate_buffers


def test_skew_sends_nearly_everything_to_the_first_channel_and_the_rest_to_all() -> None:
    partitioner = SkewedPartitioner()
    partitioner.setup(1_000)
    chosen = Counter(partitioner.select(None) for _ in range(100_000))
    assert chosen[0] == 99_001
    assert [chosen[channel] for channel in range(1, 1_000)] == [1] * 999


def test_the_default_memory_is_enough_for_every_case() -> None:
    config = NetworkConfig()
    most = max(CHANNELS.values())
    gate = gate_buffers(most, config.buffers_per_channel, config.floating_buffers_per_gate)
    assert gate.target_total <= config.segments
    assert CHANNELS[SKEW] == most


def test_cases_and_timeouts_can_be_sent_to_a_process() -> None:
    assert [case.name for case in pickle.loads(pickle.dumps(CASES))] == list(CHANNELS)
    assert len(pickle.loads(pickle.dumps(SYSTEM)).variants) == 2 * len(TIMEOUTS_MS)


async def test_a_row_says_how_many_records_left_in_one_buffer() -> None:
    ends = Ends(
        EMIT["record"],
        CONSUME["record"],
        RebalancePartitioner,
        4,
        NetworkConfig(buffer_timeout_ms=-1),
    )
    async with (
        NetworkEnvironment(config=ends.config) as there,
        NetworkEnvironment(config=ends.config) as here,
    ):
        producer = FlinknetProducer(there, ends)
        consumer = FlinknetConsumer(here, ends, producer.address)
        feed = Round(None).feed(replace(CASES[0], weigh=int), range(400))
        await asyncio.gather(producer.produce(feed), consumer.consume(int))
        assert producer.observations() == {"records_per_buffer": 100.0}


def row(case: str, variant: str, rate: float) -> Row:
    subject = ("flinknet", variant, "1")
    return median_row("channels", case, subject, [rate], [1.0], 18.0, verified=True, parameters={})


ROWS = [
    row("channels-1", "bulk, 1 ms", 200.0),
    row("channels-100", "bulk, 100 ms", 100.0),
    row("channels-1000", "bulk, 1 ms", 80.0),
    row("skew", "bulk, 1 ms", 60.0),
    row("skew", "record, 1 ms", 6.0),
]


def test_the_ratios_are_those_of_what_was_measured() -> None:
    assert [(floor.value, floor.at_least) for floor in floors(ROWS)] == [(0.8, 0.9), (0.75, 0.8)]
    assert not floors(ROWS[:2])


def test_the_table_shows_them_and_the_ratio_to_one_channel() -> None:
    printed = StringIO()
    ChannelsFamily().print(ROWS, Console(file=printed, width=120))
    text = printed.getvalue()
    assert "own channels-100 at 100 ms, bulk: 0.80x; asked: at least 0.9x" in text
    assert "skew over own even load at 1 ms, bulk: 0.75x; asked: at least 0.8x" in text
    assert "0.40x" in next(line for line in text.splitlines() if "channels-1000" in line)


def test_a_part_of_the_cases_can_be_drawn(tmp_path: Path) -> None:
    ChannelsFamily().draw(ROWS, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")

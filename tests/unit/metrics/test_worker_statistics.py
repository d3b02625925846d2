"""What leaves a worker: sums that are right, rows that fit, and the same value at the other end."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from flinknet.metrics.plain import from_plain, to_plain
from flinknet.metrics.worker_statistics import (
    METERED,
    ConnectionTotals,
    GateTotals,
    PartitionTotals,
    TaskInput,
    WorkerStatistics,
    busiest_channels,
    pack_statistics,
    unpack_statistics,
)
from tests.unit.metrics.samples import (
    channel,
    connection,
    gate,
    network,
    partition,
    pool,
    subtask,
    worker,
)

ROOM = 1_000_000


def test_a_gate_sums_up_its_channels() -> None:
    remote: dict[str, Any] = {"exclusive_total": 2, "exclusive_free": 2, "floating_free": 1}
    totals = GateTotals.of(
        gate(
            channel(0, queued_buffers=3, queued_bytes=30, backlog=4, buffers_in=5, bytes_in=50),
            channel(1, unannounced_credit=1, buffers_in=6, bytes_in=60, **remote),
            channel(2, "local", queued_buffers=2, buffers_in=7, bytes_in=70),
            floating_pool=pool(in_use=3),
        )
    )
    assert (totals.channels, totals.queued_buffers, totals.queued_bytes) == (3, 5, 30)
    assert (totals.backlog, totals.credit_announced, totals.credit_unannounced) == (4, 2, 1)
    assert (totals.exclusive_buffers, totals.exclusive_in_use, totals.floating_in_use) == (2, 0, 2)
    assert (totals.buffers_in_remote, totals.buffers_in_local) == (11, 7)
    assert (totals.bytes_in_remote, totals.bytes_in_local) == (110, 70)
    assert totals.buffered_bytes == 30 + 4 * 10


def test_a_partition_sums_up_its_subpartitions() -> None:
    one = {"queued_buffers": 1, "queued_bytes": 10, "buffers_out": 2, "bytes_out": 20}
    totals = PartitionTotals.of(partition(one, {**one, "blocked": True}, {}))
    assert (totals.subpartitions, totals.queued_buffers, totals.queued_bytes) == (3, 2, 20)
    assert (totals.buffers_out, totals.bytes_out, totals.blocked) == (4, 40, 1)
    assert totals.pool.in_use == 4


def test_a_connection_sums_up_its_readers_and_leaves_them_out() -> None:
    totals = ConnectionTotals.of(connection("worker-1", 2, 3))
    assert (totals.readers, totals.credit, totals.backlog) == (2, 5, 20)
    assert totals.connection.readers == ()
    assert totals.connection.bytes_out == 1_100


def test_the_counts_of_a_subtask_are_those_that_are_rated() -> None:
    counts = dict(zip(METERED, subtask().counts(), strict=True))
    assert counts == {
        "records_in": 1,
        "records_out": 2,
        "bytes_in": 3,
        "bytes_out": 4,
        "buffers_out": 8,
        "buffers_in_local": 6,
        "buffers_in_remote": 5,
        "bytes_in_local": 600,
        "bytes_in_remote": 500,
    }


def test_the_busiest_channels_come_first_and_no_more_than_asked_for() -> None:
    gates = [
        gate(channel(0, queued_buffers=1), channel(1, backlog=9), name="one"),
        gate(channel(0, queued_buffers=2, backlog=3), name="other"),
    ]
    one, other = (TaskInput([each], None).channels() for each in gates)
    rows = busiest_channels(other, busiest_channels(one, (), 2), 2)
    assert [(row.gate, row.channel.channel) for row in rows] == [("one", 1), ("other", 0)]
    assert busiest_channels(one, other, 0) == ()


def test_a_channel_takes_as_long_as_its_task_reads_of_all_its_gates_meanwhile() -> None:
    gates = [
        gate(channel(0, queued_bytes=100), channel(1, queued_bytes=300), name="one"),
        gate(channel(0, queued_bytes=200), name="other"),
    ]
    rows = TaskInput(gates, 1_000.0).channels()
    assert [(row.gate, row.buffered_bytes, row.time_to_consume_ms) for row in rows] == [
        ("one", 100, 300.0),
        ("one", 300, 600.0),
        ("other", 200, 500.0),
    ]


def whole_worker() -> WorkerStatistics:
    rows = tuple(TaskInput([gate(channel(0), channel(1))], None).channels())
    return worker(subtasks=2, connections=2)._replace(channels=rows)


def test_statistics_are_the_same_at_the_other_end() -> None:
    statistics = whole_worker()
    assert unpack_statistics(pack_statistics(statistics, ROOM)) == statistics


def test_a_client_gets_the_same_as_json() -> None:
    statistics = whole_worker()
    text = json.dumps(to_plain(statistics))
    assert from_plain(WorkerStatistics, json.loads(text)) == statistics


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    many = worker(subtasks=40, connections=10)
    half = len(pack_statistics(many, ROOM)) // 2
    body = pack_statistics(many, half)
    assert len(body) <= half
    kept = unpack_statistics(body)
    assert 0 < len(kept.subtasks) < 40
    assert kept.left_out == 50 - len(kept.subtasks) - len(kept.connections)
    assert kept.network_pool == many.network_pool


def test_memory_and_peers_fit_where_no_row_does() -> None:
    statistics = WorkerStatistics.of(network(), [subtask()], event_loop_lag_ms=0.0)
    kept = unpack_statistics(pack_statistics(statistics, 300))
    assert (kept.subtasks, kept.connections, kept.left_out) == ((), (), 2)


@pytest.mark.parametrize("body", [b"", b"\xc1", msgpack.packb([]), msgpack.packb([1] * 8)])
def test_what_are_no_statistics_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(the statistics are not msgpack|no )"):
        unpack_statistics(body)

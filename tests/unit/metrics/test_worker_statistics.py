"""The report of a worker: right sums, bounded rows, and a faithful round trip."""

from __future__ import annotations

import json

import msgpack
import pytest

from flinknet.metrics.plain import from_plain, to_plain
from flinknet.metrics.worker_statistics import (
    WorkerStatistics,
    pack_statistics,
    unpack_statistics,
)
from tests.unit.metrics.samples import channel, channel_rows, network, subtask, worker

ROOM = 1_000_000


def whole_worker() -> WorkerStatistics:
    rows = channel_rows(channel(0), channel(1))
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

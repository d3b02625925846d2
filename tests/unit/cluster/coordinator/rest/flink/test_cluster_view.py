"""The cluster in Flink's formats: configuration, overview, TaskManagers."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.cluster.coordinator.rest.flink.cluster_view import (
    cluster_overview,
    dashboard_configuration,
    task_manager,
    task_manager_details,
)
from flinknet.metrics.garbage_totals import GarbageTotals, GenerationTotals
from flinknet.version import __version__
from tests.unit.cluster.coordinator.rest.flink.jobs import open_all, release, submitted
from tests.unit.metrics.samples import worker as statistics

POOL = NetworkBufferPoolStatistics(
    total=10, free=4, required=6, exclusive=2, requested=6, local_pools=1, segment_bytes=1000
)


def test_the_configuration_names_versions_and_the_time_zone() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-2), "there"))
    told = dashboard_configuration("1.20.3", now)
    assert (told["flink-version"], told["flink-revision"]) == ("1.20.3", f"flinknet-{__version__}")
    assert (told["timezone-name"], told["timezone-offset"]) == ("there", -7_200_000)
    assert told["features"]["web-cancel"]
    assert not told["features"]["web-submit"]


def test_the_overview_counts_jobs_until_they_have_ended() -> None:
    dispatcher, record = submitted()
    told = cluster_overview(dispatcher, "1.20.3")
    assert (told["taskmanagers"], told["slots-total"], told["slots-available"]) == (1, 4, 2)
    assert (told["jobs-running"], told["jobs-cancelled"]) == (1, 0)
    open_all(dispatcher, record, 2.0)
    dispatcher.cancel(record, 3.0)
    release(dispatcher, record, 4.0)
    told = cluster_overview(dispatcher, "1.20.3")
    assert told["slots-available"] == 4
    assert (told["jobs-running"], told["jobs-cancelled"]) == (0, 1)
    assert (told["jobs-finished"], told["jobs-failed"]) == (0, 0)


def test_a_worker_is_a_task_manager_whose_network_memory_is_known_once_it_reports() -> None:
    dispatcher, _ = submitted()
    (worker,) = dispatcher.workers.registered()
    heard_ms = dispatcher.wall_ms(worker.heard_at)
    unknown = task_manager(worker, heard_ms, None)
    assert (unknown["id"], unknown["dataPort"]) == ("worker-0", 1000)
    assert unknown["timeSinceLastHeartbeat"] == 1_000_500
    assert (unknown["slotsNumber"], unknown["freeSlots"]) == (4, 2)
    assert unknown["totalResource"]["networkMemory"] == -1
    assert unknown["memoryConfiguration"]["networkMemory"] is None
    known = task_manager(worker, heard_ms, POOL)
    assert known["totalResource"]["networkMemory"] == 10_000
    assert known["freeResource"]["networkMemory"] == 4_000
    assert known["memoryConfiguration"]["networkMemory"] == 10_000


def test_the_details_of_a_worker_tell_of_slots_and_segments() -> None:
    dispatcher, record = submitted()
    (worker,) = dispatcher.workers.registered()
    garbage = GarbageTotals((GenerationTotals(0, 7, 0.25, 0), GenerationTotals(2, 1, 1.5, 10)))
    reported = statistics()._replace(network_pool=POOL, garbage=garbage)
    told = task_manager_details(worker, 0, reported)
    assert [slot["jobId"] for slot in told["allocatedSlots"]] == [record.job_id] * 2
    metrics = told["metrics"]
    names = ("SegmentsTotal", "SegmentsAvailable", "SegmentsUsed", "Total", "Available", "Used")
    assert [metrics[f"nettyShuffleMemory{name}"] for name in names] == [
        *(10, 4, 6),
        *(10_000, 4_000, 6_000),
    ]
    assert metrics["heapUsed"] == 0, "there is no JVM"
    assert metrics["garbageCollectors"] == [
        {"name": "All", "count": 8, "time": 1750},
        {"name": "generation0", "count": 7, "time": 250},
        {"name": "generation2", "count": 1, "time": 1500},
    ]
    nothing = task_manager_details(worker, 0, None)["metrics"]
    assert (nothing["memorySegmentsTotal"], nothing["garbageCollectors"]) == (0, [])

"""The cluster in the formats of Flink's REST API: configuration, counts and TaskManagers.

Workers appear as TaskManagers. Views are plain JSON types. Values that the coordinator does not
know of a worker are -1, which is Flink's value for an unknown resource. JVM memory is 0, since a
worker has no JVM. Times are in milliseconds since 1970, sizes in bytes.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.metrics.garbage_totals import GarbageTotals
from flinknet.metrics.worker_statistics import WorkerStatistics
from flinknet.version import __version__

__all__ = ["cluster_overview", "dashboard_configuration", "task_manager", "task_manager_details"]

_REFRESH_MS = 3000
"""Milliseconds between two requests of the dashboard. Flink: web.refresh-interval."""

_COMMIT = f"flinknet-{__version__}"
"""The value in place of the commit from which Flink was built."""

_UNKNOWN = -1


def dashboard_configuration(flink_version: str, now: datetime) -> dict[str, Any]:
    """Return Flink's DashboardConfiguration, which web pages and some clients request first.

    ``now`` must have a time zone.
    """
    offset = now.utcoffset()
    assert offset is not None, "the time zone of the coordinator is known"
    return {
        "refresh-interval": _REFRESH_MS,
        "timezone-name": now.tzname() or "",
        "timezone-offset": round(offset.total_seconds() * 1000),
        "flink-version": flink_version,
        "flink-revision": _COMMIT,
        "features": {
            "web-submit": False,
            "web-cancel": True,
            "web-rescale": False,
            "web-history": False,
        },
    }


def cluster_overview(dispatcher: Dispatcher, flink_version: str) -> dict[str, Any]:
    """Return Flink's ClusterOverviewWithVersion: counts of workers, slots and jobs."""
    workers = dispatcher.workers.registered()
    states = Counter(job.state for job in dispatcher.jobs())
    ended = {state: states.pop(state, 0) for state in JobState if state.is_terminal}
    return {
        "taskmanagers": len(workers),
        "slots-total": sum(worker.slots for worker in workers),
        "slots-available": sum(worker.free_slots for worker in workers),
        "jobs-running": states.total(),
        "jobs-finished": ended[JobState.FINISHED],
        "jobs-cancelled": ended[JobState.CANCELED],
        "jobs-failed": ended[JobState.FAILED],
        "flink-version": flink_version,
        "flink-commit": _COMMIT,
    }


def task_manager(
    worker: WorkerRecord, heard_ms: int, pool: NetworkBufferPoolStatistics | None
) -> dict[str, Any]:
    """Return Flink's TaskManagerInfo; ``pool`` is None until the worker has reported."""
    network = _UNKNOWN if pool is None else pool.total_memory_bytes
    free = _UNKNOWN if pool is None else pool.available_memory_bytes
    return {
        "id": worker.worker_id,
        "path": worker.address,
        "dataPort": int(worker.address.rpartition(":")[2]),
        "jmxPort": _UNKNOWN,
        "timeSinceLastHeartbeat": heard_ms,
        "slotsNumber": worker.slots,
        "freeSlots": worker.free_slots,
        "totalResource": _resource(network),
        "freeResource": _resource(free),
        "hardware": dict.fromkeys(
            ("cpuCores", "physicalMemory", "freeMemory", "managedMemory"), _UNKNOWN
        ),
        "memoryConfiguration": {
            "frameworkHeap": None,
            "taskHeap": None,
            "frameworkOffHeap": None,
            "taskOffHeap": None,
            "networkMemory": None if pool is None else network,
            "managedMemory": None,
            "jvmMetaspace": None,
            "jvmOverhead": None,
            "totalFlinkMemory": None,
            "totalProcessMemory": None,
        },
    }


def task_manager_details(
    worker: WorkerRecord, heard_ms: int, reported: WorkerStatistics | None
) -> dict[str, Any]:
    """Return Flink's TaskManagerDetailsInfo.

    It adds the slots that jobs occupy, the network memory, and the garbage collector.
    """
    pool = None if reported is None else reported.network_pool
    slots = [
        {"jobId": job_id, "resource": _resource(_UNKNOWN)}
        for (job_id, _), number in worker.occupied.items()
        for _ in range(number)
    ]
    return {
        **task_manager(worker, heard_ms, pool),
        "metrics": {
            **_metrics(pool),
            "garbageCollectors": [] if reported is None else _collectors(reported.garbage),
        },
        "allocatedSlots": slots,
    }


def _resource(network: int) -> dict[str, Any]:
    """Return Flink's ResourceProfileInfo."""
    return {
        "cpuCores": float(_UNKNOWN),
        "taskHeapMemory": _UNKNOWN,
        "taskOffHeapMemory": _UNKNOWN,
        "managedMemory": _UNKNOWN,
        "networkMemory": network,
        "extendedResources": {},
    }


def _metrics(pool: NetworkBufferPoolStatistics | None) -> dict[str, Any]:
    """Return Flink's TaskManagerMetricsInfo, which has the segments of the network memory twice."""
    java = ("heap", "nonHeap")
    sizes = ("Used", "Committed", "Max")
    buffers = ("directCount", "directUsed", "directMax", "mappedCount", "mappedUsed", "mappedMax")
    available, used, total = (0, 0, 0) if pool is None else (pool.free, pool.used, pool.total)
    segment = 0 if pool is None else pool.segment_bytes
    shuffle = "nettyShuffleMemory"
    return {
        **{kind + size: 0 for kind in java for size in sizes},
        **dict.fromkeys(buffers, 0),
        "memorySegmentsAvailable": available,
        "memorySegmentsTotal": total,
        f"{shuffle}SegmentsAvailable": available,
        f"{shuffle}SegmentsUsed": used,
        f"{shuffle}SegmentsTotal": total,
        f"{shuffle}Available": available * segment,
        f"{shuffle}Used": used * segment,
        f"{shuffle}Total": total * segment,
    }


def _collectors(garbage: GarbageTotals) -> list[dict[str, Any]]:
    """Return Flink's GarbageCollectorInfo: the generations by name."""
    return [
        {"name": name, "count": one.collections, "time": round(1000 * one.seconds)}
        for name, one in garbage.collectors().items()
    ]

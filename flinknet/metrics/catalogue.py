"""The catalogues of a worker's metrics, and the families exported from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinknet.metrics.build_info import BUILD
from flinknet.metrics.environment_totals import EnvironmentTotals
from flinknet.metrics.latency_catalogue import LATENCY, latency_families
from flinknet.metrics.registry import Catalogue, Family, Labels
from flinknet.metrics.task_catalogue import (
    CHANNEL,
    GATE,
    OPERATOR,
    PARTITION,
    TASK,
    channel_families,
    exchange_families,
    task_families,
    task_labels,
)
from flinknet.metrics.worker_catalogue import (
    ALL_COLLECTORS,
    COLLECTOR,
    CONNECTION,
    EVENT_LOOP,
    GENERATION,
    NETWORK,
    PROCESS,
    REFUSED,
    TOPIC,
    VIOLATIONS,
    garbage_families,
    network_families,
    topic_families,
)
from flinknet.metrics.worker_statistics import WorkerStatistics

__all__ = ["WORKER_CATALOGUES", "environment_families", "worker_families"]

WORKER_CATALOGUES: tuple[Catalogue[Any], ...] = (
    TASK,
    OPERATOR,
    LATENCY,
    GATE,
    PARTITION,
    CHANNEL,
    NETWORK,
    REFUSED,
    VIOLATIONS,
    CONNECTION,
    TOPIC,
    EVENT_LOOP,
    PROCESS,
    COLLECTOR,
    ALL_COLLECTORS,
    GENERATION,
    BUILD,
)
"""The catalogues, in the order of the documentation."""


def worker_families(labels: Labels, worker: WorkerStatistics) -> Iterator[Family]:
    """Make all families of a cluster's worker, except the families of its process."""
    yield from network_families(labels, worker, worker.connections)
    yield from EVENT_LOOP.families([(labels, worker)])
    yield from garbage_families(labels, worker.garbage)
    tasks = [(task_labels(labels, task), task) for task in worker.subtasks]
    yield from task_families(tasks)
    yield from latency_families(labels, worker.subtasks)
    yield from exchange_families(
        [(own, gate) for own, task in tasks for gate in task.gates],
        [(own, partition) for own, task in tasks for partition in task.partitions],
    )
    yield from channel_families(labels, worker.channels)


def environment_families(labels: Labels, totals: EnvironmentTotals) -> Iterator[Family]:
    """Make all families of a network environment that a program embeds."""
    yield from network_families(labels, totals.network, totals.network.connections)
    yield from exchange_families(
        [(labels, gate) for gate in totals.gates],
        [(labels, partition) for partition in totals.partitions],
    )
    yield from topic_families(labels, totals.topics)

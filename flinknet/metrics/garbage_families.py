"""What is exported of the garbage collector of a worker, under Flink's names and our own.

Flink's collectors are those of a JVM, ``G1_Young_Generation``, and ``All`` of them together.
Python's are its generations: ``generation0`` to ``generation2``.
"""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.metrics.families import Family, Kind, Labels
from flinknet.metrics.garbage_totals import GarbageTotals

__all__ = ["garbage_collectors", "garbage_families"]

_SCOPE = "taskmanager_Status_JVM_GarbageCollector"

_ALL = "All"


def garbage_collectors(garbage: GarbageTotals) -> dict[str, tuple[int, float]]:
    """Collections and milliseconds, by the names of Flink's ``GarbageCollector`` metrics."""
    named = {
        f"generation{one.generation}": (one.collections, 1000 * one.seconds)
        for one in garbage.generations
    }
    return {_ALL: (garbage.collections, 1000 * garbage.seconds), **named}


def garbage_families(labels: Labels, garbage: GarbageTotals) -> Iterator[Family]:
    """Everything of one worker."""
    for name, (collections, milliseconds) in garbage_collectors(garbage).items():
        yield _of_flink(f"{name}_Count", "Collections of garbage", labels, collections)
        yield _of_flink(f"{name}_Time", "Milliseconds of collecting", labels, milliseconds)
    per_second = 1000 * garbage.seconds_per_second
    yield _of_flink(
        f"{_ALL}_TimeMsPerSecond", "Of each second, the last minute", labels, per_second
    )
    by_generation = [
        ({**labels, "generation": str(one.generation)}, one) for one in garbage.generations
    ]
    if by_generation:
        yield Family(
            "flinknet_gc_collections_total",
            "Collections of garbage, in which all threads of the worker stand still",
            Kind.COUNTER,
            [(which, one.collections) for which, one in by_generation],
        )
        yield Family(
            "flinknet_gc_seconds_total",
            "How long they took",
            Kind.COUNTER,
            [(which, one.seconds) for which, one in by_generation],
        )
        yield Family(
            "flinknet_gc_freed_objects_total",
            "Objects that they have freed",
            Kind.COUNTER,
            [(which, one.objects) for which, one in by_generation],
        )


def _of_flink(name: str, what: str, labels: Labels, value: float) -> Family:
    described = f"{what} (scope: {_SCOPE})"
    return Family(f"flink_{_SCOPE}_{name}", described, Kind.GAUGE, [(labels, value)])

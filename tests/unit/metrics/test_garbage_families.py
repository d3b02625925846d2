"""The collector under Flink's names, and by generation."""

from __future__ import annotations

from flinknet.metrics.families import Kind
from flinknet.metrics.garbage_families import garbage_families
from flinknet.metrics.garbage_totals import GarbageTotals, GenerationTotals

LABELS = {"tm_id": "worker-0"}
SCOPE = "flink_taskmanager_Status_JVM_GarbageCollector_"
GARBAGE = GarbageTotals(
    (GenerationTotals(0, 7, 0.25, 70), GenerationTotals(2, 1, 1.5, 10)), (), 0.125
)


def test_dashboards_for_flink_find_its_collectors() -> None:
    found = {one.name: one.samples[0] for one in garbage_families(LABELS, GARBAGE)}
    assert found[f"{SCOPE}All_Count"] == (LABELS, 8)
    assert found[f"{SCOPE}All_Time"] == (LABELS, 1_750)
    assert found[f"{SCOPE}All_TimeMsPerSecond"] == (LABELS, 125)
    assert found[f"{SCOPE}generation2_Time"] == (LABELS, 1_500)


def test_generations_are_a_label_of_our_own_counters() -> None:
    found = {one.name: one for one in garbage_families(LABELS, GARBAGE)}
    seconds = found["flinknet_gc_seconds_total"]
    assert seconds.kind is Kind.COUNTER
    assert seconds.samples == [
        ({**LABELS, "generation": "0"}, 0.25),
        ({**LABELS, "generation": "2"}, 1.5),
    ]
    assert [value for _, value in found["flinknet_gc_collections_total"].samples] == [7, 1]
    assert [value for _, value in found["flinknet_gc_freed_objects_total"].samples] == [70, 10]


def test_a_worker_that_has_not_collected_yet_has_no_generations() -> None:
    names = {one.name for one in garbage_families(LABELS, GarbageTotals())}
    assert names == {f"{SCOPE}All_{name}" for name in ("Count", "Time", "TimeMsPerSecond")}

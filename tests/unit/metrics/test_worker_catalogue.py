"""Flink's names of process, collector and network memory, and flinknet's own by peer and topic."""

from __future__ import annotations

import pytest

from flinknet.metrics.environment_statistics import TopicStatistics
from flinknet.metrics.garbage_totals import GarbageTotals, GenerationTotals
from flinknet.metrics.process_totals import ProcessTotals
from flinknet.metrics.registry import Kind
from flinknet.metrics.worker_catalogue import (
    EVENT_LOOP,
    PROCESS,
    garbage_families,
    network_families,
    topic_families,
    worker_labels,
)
from tests.unit.metrics.samples import worker

LABELS = {"tm_id": "worker-0"}
WORKER = worker()
FAMILIES = {family.name: family for family in network_families(LABELS, WORKER, WORKER.connections)}
JVM = "flink_taskmanager_Status_JVM_"
COLLECTORS = f"{JVM}GarbageCollector_"
GARBAGE = GarbageTotals(
    (GenerationTotals(0, 7, 0.25, 70), GenerationTotals(2, 1, 1.5, 10)), (), 0.125
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TotalMemorySegments", 100),
        ("AvailableMemorySegments", 60),
        ("UsedMemorySegments", 40),
        ("TotalMemory", 100 * 1024),
        ("AvailableMemory", 60 * 1024),
        ("UsedMemory", 40 * 1024),
        ("RequestedMemoryUsage", 50.0),
    ],
)
def test_network_memory_has_flinks_names(name: str, expected: float) -> None:
    family = FAMILIES[f"flink_taskmanager_Status_Shuffle_Netty_{name}"]
    assert (family.kind, family.samples) == (Kind.GAUGE, [(LABELS, expected)])


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("connections", {}, 1),
        ("connections_accepted_total", {}, 3),
        ("connections_lost_total", {}, 1),
        ("reassembly_disk_bytes", {}, 5),
        ("connection_credit", {"peer": "worker 0"}, 5),
        ("connection_backlog", {"peer": "worker 0"}, 20),
        ("connection_sent_bytes_total", {"peer": "worker 0"}, 1_100),
        ("connection_stalled", {"peer": "worker 0"}, 0),
    ],
)
def test_flinknets_own_have_their_values(
    name: str, labels: dict[str, str], expected: float
) -> None:
    assert FAMILIES[f"flinknet_{name}"].samples == [({**LABELS, **labels}, expected)]


def test_refused_peers_are_counted_by_reason() -> None:
    family = FAMILIES["flinknet_peers_refused_total"]
    assert [(labels["reason"], value) for labels, value in family.samples] == [
        ("full", 5),
        ("version", 6),
    ]


def test_broken_protocols_are_counted_by_kind() -> None:
    family = FAMILIES["flinknet_protocol_violations_total"]
    assert family.samples == [({**LABELS, "kind": "credit"}, 7)]


@pytest.mark.parametrize(
    ("address", "host"), [("127.0.0.1:7001", "127.0.0.1"), ("[::1]:7001", "::1")]
)
def test_a_workers_labels_are_its_host_and_its_name(address: str, host: str) -> None:
    assert worker_labels("worker-0", address) == {"host": host, "tm_id": "worker-0"}


def test_peers_have_a_family_before_one_is_refused() -> None:
    peers = WORKER.peers._replace(refused=(), violations=())
    families = network_families(LABELS, WORKER._replace(peers=peers), ())
    found = {family.name: family.samples for family in families}
    assert found["flinknet_peers_refused_total"] == []
    assert found["flinknet_protocol_violations_total"] == []
    assert "flinknet_connection_credit" not in found


def test_the_event_loop_has_its_lag() -> None:
    [family] = EVENT_LOOP.families([(LABELS, WORKER)])
    assert family.name == "flinknet_event_loop_lag_seconds"
    assert family.samples == [(LABELS, 0.0015)]


@pytest.mark.parametrize("scope", [None, "jobmanager_Status_JVM"])
def test_a_process_has_the_scope_of_its_kind(scope: str | None) -> None:
    totals = ProcessTotals(0.5, 7_000, 3)
    found = {one.name: one.samples for one in PROCESS.families([(LABELS, totals)], scope)}
    prefix = f"flink_{scope}_" if scope else JVM
    assert found == {
        f"{prefix}CPU_Load": [(LABELS, 0.5)],
        f"{prefix}CPU_Time": [(LABELS, 7_000)],
        f"{prefix}Threads_Count": [(LABELS, 3)],
    }


def test_dashboards_for_flink_find_its_collectors() -> None:
    found = {one.name: one.samples[0] for one in garbage_families(LABELS, GARBAGE)}
    assert found[f"{COLLECTORS}All_Count"] == (LABELS, 8)
    assert found[f"{COLLECTORS}All_Time"] == (LABELS, 1_750)
    assert found[f"{COLLECTORS}All_TimeMsPerSecond"] == (LABELS, 125)
    assert found[f"{COLLECTORS}generation2_Time"] == (LABELS, 1_500)


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
    assert names == {f"{COLLECTORS}All_{name}" for name in ("Count", "Time", "TimeMsPerSecond")}


TOPICS = [TopicStatistics("ticks", 2, 30, 5, 1, 2, 400)]
OF_TOPICS = {family.name: family for family in topic_families(LABELS, TOPICS)}


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("readers", Kind.GAUGE, 2),
        ("queued_records", Kind.GAUGE, 30),
        ("readers_joined_total", Kind.COUNTER, 5),
        ("readers_left_total", Kind.COUNTER, 1),
        ("readers_disconnected_total", Kind.COUNTER, 2),
        ("dropped_records_total", Kind.COUNTER, 400),
    ],
)
def test_topics_are_counted_by_their_names(name: str, kind: Kind, value: int) -> None:
    family = OF_TOPICS[f"flinknet_topic_{name}"]
    assert (family.kind, family.samples) == (kind, [({**LABELS, "topic": "ticks"}, value)])


def test_without_topics_there_is_no_family() -> None:
    assert list(topic_families(LABELS, [])) == []

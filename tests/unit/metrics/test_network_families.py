"""Flink's names of network memory, and flinknet's own by peer, gate and partition."""

from __future__ import annotations

import pytest

from flinknet.metrics.busiest_channels import ChannelRow
from flinknet.metrics.families import Kind
from flinknet.metrics.network_families import worker_families, worker_labels
from tests.unit.metrics.samples import channel, subtask, worker

LABELS = {"tm_id": "worker-0"}
FAMILIES = {family.name: family for family in worker_families(LABELS, worker())}


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
        ("event_loop_lag_seconds", {}, 0.0015),
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


@pytest.mark.parametrize(
    ("name", "own_label", "expected"),
    [
        ("gate_backlog", ("gate", "gate"), 7),
        ("gate_buffered_bytes", ("gate", "gate"), 1_000),
        ("gate_queued_buffers", ("gate", "gate"), 4),
        ("gate_received_bytes_total", ("gate", "gate"), 1_100),
        ("partition_queued_buffers", ("partition", "numbers"), 2),
        ("partition_pool_buffers_in_use", ("partition", "numbers"), 4),
        ("partition_sent_bytes_total", ("partition", "numbers"), 800),
    ],
)
def test_gates_and_partitions_say_whose_they_are(
    name: str, own_label: tuple[str, str], expected: float
) -> None:
    [(labels, value)] = FAMILIES[f"flinknet_{name}"].samples
    assert (labels["task_name"], labels["subtask_index"], value) == ("Map", "0", expected)
    assert own_label in labels.items()


def test_channels_that_were_asked_for_say_whose_they_are() -> None:
    rows = (
        ChannelRow("sums", channel(3, backlog=9, bytes_in=80), 700, 12.5),
        ChannelRow("sums", channel(4), 0, None),
    )
    of_worker = worker_families(LABELS, worker()._replace(channels=rows))
    families = {one.name.removeprefix("flinknet_channel_"): one.samples for one in of_worker}
    three, four = ({**LABELS, "gate": "sums", "channel": number} for number in "34")
    assert families["backlog"] == [(three, 9), (four, 0)]
    assert families["buffered_bytes"] == [(three, 700), (four, 0)]
    assert families["received_bytes_total"] == [(three, 80), (four, 0)]
    assert families["time_to_consume_seconds"] == [(three, 0.0125)], "the other is not known"


def test_a_gate_says_how_long_it_takes_once_that_is_known() -> None:
    assert "flinknet_gate_time_to_consume_seconds" not in FAMILIES
    one = subtask()
    gates = (one.gates[0]._replace(time_to_consume_ms=250.0),)
    known = worker()._replace(subtasks=(one._replace(gates=gates),))
    families = {family.name: family for family in worker_families(LABELS, known)}
    [(_, seconds)] = families["flinknet_gate_time_to_consume_seconds"].samples
    assert seconds == 0.25


def test_refused_peers_are_counted_by_reason() -> None:
    family = FAMILIES["flinknet_peers_refused_total"]
    assert [(labels["reason"], value) for labels, value in family.samples] == [
        ("full", 5),
        ("version", 6),
    ]


def test_counters_are_known_by_their_names() -> None:
    for family in FAMILIES.values():
        assert (family.kind is Kind.COUNTER) == family.name.endswith("_total")


@pytest.mark.parametrize(
    ("address", "host"), [("127.0.0.1:7001", "127.0.0.1"), ("[::1]:7001", "::1")]
)
def test_a_workers_labels_are_its_host_and_its_name(address: str, host: str) -> None:
    assert worker_labels("worker-0", address) == {"host": host, "tm_id": "worker-0"}

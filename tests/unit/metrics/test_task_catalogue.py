"""Flink's names of subtask and operator metrics, with their values; gates and partitions by
owner."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.consumer.debloating import BufferDebloaterStatistics
from flinknet.metrics.busiest_channels import ChannelRow
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.registry import Family, Kind
from flinknet.metrics.task_catalogue import (
    METERED,
    TASK,
    channel_families,
    counts_of,
    exchange_families,
    find_metric,
    task_families,
    task_labels,
    task_values,
)
from flinknet.metrics.worker_statistics import SubtaskTotals
from tests.unit.metrics.samples import channel, gate, pool, subtask

SCOPE = "flink_taskmanager_job_task_"
OPERATOR_SCOPE = f"{SCOPE}operator_"
MAP = OperatorTotals("Map", "map", 10, 20, 1_000, 900, None, 1.5, 2.5)
WINDOW = OperatorTotals("Window: sum, 1.5 s", "window", 20, 3, 900, None, 4)
CHAIN = subtask(operators=(MAP, WINDOW))


def families(*tasks: SubtaskTotals) -> dict[str, Family]:
    labelled = [(task_labels({"tm_id": "worker-0"}, task), task) for task in tasks]
    return {family.name: family for family in task_families(labelled)}


def value(name: str, task: SubtaskTotals) -> float:
    [(_, only)] = families(task)[SCOPE + name].samples
    return only


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("numRecordsIn", 1),
        ("numRecordsInPerSecond", 0.5),
        ("numRecordsOut", 2),
        ("numBytesIn", 3),
        ("numBytesOut", 4),
        ("numBuffersOut", 8),
        ("numBuffersOutPerSecond", 4.5),
        ("Shuffle_Netty_Input_numBuffersInLocal", 6),
        ("Shuffle_Netty_Input_numBuffersInRemote", 5),
        ("Shuffle_Netty_Input_numBytesInLocal", 600),
        ("Shuffle_Netty_Input_numBytesInRemote", 500),
        ("Shuffle_Netty_Input_numBytesInRemotePerSecond", 8.5),
        ("busyTimeMsPerSecond", 400.0),
        ("idleTimeMsPerSecond", 100.0),
        ("backPressuredTimeMsPerSecond", 500.0),
        ("softBackPressuredTimeMsPerSecond", 200.0),
        ("hardBackPressuredTimeMsPerSecond", 300.0),
        ("maxHardBackPressureTimeMs", 30.0),
        ("isBackPressured", 1),
        ("buffers_inputQueueLength", 4),
        ("Shuffle_Netty_Input_Buffers_inputQueueLength", 4),
        ("Shuffle_Netty_Input_Buffers_inputQueueSize", 300),
        ("buffers_outputQueueLength", 2),
        ("Shuffle_Netty_Output_Buffers_outputQueueSize", 20),
        ("buffers_outPoolUsage", 0.5),
        ("mailboxQueueSize", 1),
        ("mailboxLatencyMs", 1.5),
        ("Shuffle_Netty_Output_Buffers_outPoolUsage", 0.5),
    ],
)
def test_flinks_names_have_their_values(name: str, expected: float) -> None:
    assert value(name, subtask()) == expected


def test_who_has_no_event_time_tells_none() -> None:
    assert value("currentInputWatermark", subtask(input_watermark=1_000)) == 1_000
    name = "currentInputWatermark"
    assert name not in task_values(subtask())
    assert task_values(subtask(input_watermark=-(1 << 63)))[name] == -(1 << 63)
    assert SCOPE + name not in families(subtask())


def test_usage_is_the_part_of_the_buffers_of_all_gates_that_holds_data() -> None:
    free: dict[str, Any] = {"exclusive_total": 2, "exclusive_free": 2}
    full: dict[str, Any] = {"exclusive_total": 2, "exclusive_free": 0}
    gates = (
        gate(channel(0, **free), floating_pool=pool(size=4, in_use=0)),
        gate(channel(0, **full), floating_pool=pool(size=4, in_use=4)),
    )
    task = subtask(gates=gates)
    assert value("buffers_inputFloatingBuffersUsage", task) == 0.5
    assert value("buffers_inputExclusiveBuffersUsage", task) == 0.5
    assert value("Shuffle_Netty_Input_Buffers_inPoolUsage", task) == 0.5


def test_a_source_uses_no_input_buffers() -> None:
    assert value("buffers_inPoolUsage", subtask(gates=())) == 0.0


def test_debloating_shows_where_it_is_on_and_nowhere_else() -> None:
    size = "Shuffle_Netty_Input_debloatedBufferSize"
    assert SCOPE + size not in families(subtask())
    debloated = gate(channel(0), debloating=BufferDebloaterStatistics(4_096, 12.5))
    assert value(size, subtask(gates=(debloated,))) == 4_096


def test_the_time_to_consume_is_the_debloaters_or_else_the_longest_of_the_gates() -> None:
    name = "estimatedTimeToConsumeBuffersMs"
    assert SCOPE + name not in families(subtask()), "it is not known yet"
    plain = gate(channel(0))._replace(time_to_consume_ms=7.0)
    longer = plain._replace(time_to_consume_ms=9.0)
    assert value(name, subtask(gates=(plain, longer))) == 9.0
    debloated = plain._replace(debloating=BufferDebloaterStatistics(4_096, 12.5))
    assert value(name, subtask(gates=(debloated,))) == 12.5


def test_everything_is_a_gauge_without_total_as_flinks_reporter_has_it() -> None:
    for family in families(subtask()).values():
        assert family.kind is Kind.GAUGE
        assert not family.name.endswith("_total")


def test_labels_are_those_of_flinks_reporter() -> None:
    assert task_labels({"host": "127.0.0.1", "tm_id": "worker-0"}, subtask(3)) == {
        "host": "127.0.0.1",
        "tm_id": "worker-0",
        "job_id": "0815",
        "job_name": "sums",
        "task_id": "00000000000000000000000000000001",
        "task_name": "Map",
        "task_attempt_id": "0815_00000000000000000000000000000001_3_0",
        "task_attempt_num": "0",
        "subtask_index": "3",
    }


def test_each_subtask_has_a_sample() -> None:
    family = families(subtask(0), subtask(1))[SCOPE + "numRecordsIn"]
    assert [labels["subtask_index"] for labels, _ in family.samples] == ["0", "1"]


def test_flinks_rest_has_the_same_values_with_dots_in_their_names() -> None:
    values = task_values(subtask())
    exported = families(subtask())
    assert {name.replace(".", "_") for name in values} == {
        name.removeprefix(SCOPE) for name in exported
    }
    assert values["Shuffle.Netty.Input.numBytesInLocal"] == 600
    assert values["numRecordsInPerSecond"] == 0.5
    assert "debloatedBufferSize" not in values, "it is off"
    assert "numRecordsInPerSecond" not in task_values(subtask(rates=()))


def test_the_counts_of_a_subtask_are_those_that_are_metered() -> None:
    assert dict(zip(METERED, counts_of(subtask()), strict=True)) == {
        "numRecordsIn": 1,
        "numRecordsOut": 2,
        "numBytesIn": 3,
        "numBytesOut": 4,
        "numBuffersOut": 8,
        "Shuffle.Netty.Input.numBuffersInLocal": 6,
        "Shuffle.Netty.Input.numBuffersInRemote": 5,
        "Shuffle.Netty.Input.numBytesInLocal": 600,
        "Shuffle.Netty.Input.numBytesInRemote": 500,
    }
    assert counts_of(subtask(gates=(), partitions=()))[4:] == (0, 0, 0, 0, 0)


def test_several_subtasks_add_up_as_their_metrics_say() -> None:
    full = gate(channel(0), floating_pool=pool(size=4, in_use=4))
    empty = gate(channel(0), floating_pool=pool(size=12, in_use=0))
    tasks = [
        subtask(0, gates=(full,), input_watermark=7, mailbox_latency_ms=3.0),
        subtask(1, gates=(empty,), input_watermark=5),
        subtask(2, gates=()),
    ]
    added = {
        name: TASK[name].total(tasks)
        for name in (
            "numRecordsIn",
            "buffers.inPoolUsage",
            "currentInputWatermark",
            "mailboxLatencyMs",
            "busyTimeMsPerSecond",
            "buffers.outputQueueLength",
        )
    }
    assert added == {
        "numRecordsIn": 3,
        "buffers.inPoolUsage": 0.25,
        "currentInputWatermark": 5,
        "mailboxLatencyMs": 3.0,
        "busyTimeMsPerSecond": 400.0,
        "buffers.outputQueueLength": 6,
    }


def of_operators() -> dict[str, Family]:
    found = families(CHAIN).items()
    return {name.removeprefix(OPERATOR_SCOPE): one for name, one in found if OPERATOR_SCOPE in name}


def test_operators_have_flinks_names_too() -> None:
    values = {
        name: [value for _, value in family.samples] for name, family in of_operators().items()
    }
    assert values == {
        "numRecordsIn": [10, 20],
        "numRecordsInPerSecond": [1.5, 0.0],
        "numRecordsOut": [20, 3],
        "numRecordsOutPerSecond": [2.5, 0.0],
        "currentInputWatermark": [1_000, 900],
        "currentOutputWatermark": [900],
        "numLateRecordsDropped": [4],
    }


def test_an_operator_has_the_labels_of_its_subtask_and_its_own() -> None:
    labels, _ = of_operators()["numRecordsIn"].samples[1]
    assert labels == {
        **task_labels({"tm_id": "worker-0"}, CHAIN),
        "operator_id": hex_id("window"),
        "operator_name": "Window: sum, 1.5 s",
    }


def test_flinks_rest_has_operators_behind_their_names() -> None:
    values = task_values(CHAIN)
    assert values["Map.numRecordsOutPerSecond"] == 2.5
    assert values["Window__sum__1_5_s.numLateRecordsDropped"] == 4
    assert "Map.numLateRecordsDropped" not in values


def test_a_name_of_flinks_rest_finds_the_metric_and_what_it_describes() -> None:
    tasks = [CHAIN, subtask(1, operators=(MAP,)), subtask(2)]
    metric, found = find_metric(tasks, "Map.numRecordsIn")
    assert (found, metric.total(found)) == ([MAP, MAP], 20)
    metric, found = find_metric(tasks, "currentInputWatermark")
    assert (found, metric.total(found)) == (tasks, None)
    with pytest.raises(KeyError, match="numRecords"):
        find_metric(tasks, "Map.numRecords")


def test_of_two_operators_of_a_name_the_last_one_is_found_and_told() -> None:
    second = MAP._replace(records_in=7)
    task = subtask(operators=(MAP, second))
    metric, found = find_metric([task], "Map.numRecordsIn")
    assert metric.total(found) == 7
    assert task_values(task)["Map.numRecordsIn"] == 7


OWNED = [(task_labels({"tm_id": "worker-0"}, subtask()), subtask())]
EXCHANGE = {
    family.name: family
    for family in exchange_families(
        [(labels, one) for labels, task in OWNED for one in task.gates],
        [(labels, one) for labels, task in OWNED for one in task.partitions],
    )
}


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
    [(labels, value)] = EXCHANGE[f"flinknet_{name}"].samples
    assert (labels["task_name"], labels["subtask_index"], value) == ("Map", "0", expected)
    assert own_label in labels.items()


def test_channels_say_whose_they_are() -> None:
    rows = (
        ChannelRow("sums", channel(3, backlog=9, bytes_in=80), 700, 12.5),
        ChannelRow("sums", channel(4), 0, None),
    )
    worker = {"tm_id": "worker-0"}
    named = {
        one.name.removeprefix("flinknet_channel_"): one.samples
        for one in channel_families(worker, rows)
    }
    three, four = ({**worker, "gate": "sums", "channel": number} for number in "34")
    assert named["backlog"] == [(three, 9), (four, 0)]
    assert named["buffered_bytes"] == [(three, 700), (four, 0)]
    assert named["received_bytes_total"] == [(three, 80), (four, 0)]
    assert named["time_to_consume_seconds"] == [(three, 0.0125)], "the other is not known"


def test_a_gate_says_how_long_it_takes_once_that_is_known() -> None:
    name = "flinknet_gate_time_to_consume_seconds"
    assert name not in EXCHANGE
    known = subtask().gates[0]._replace(time_to_consume_ms=250.0)
    found = {family.name: family.samples for family in exchange_families([({}, known)], [])}
    assert found[name] == [({"gate": "gate"}, 0.25)]

"""Each subtask's part in a checkpoint, in Flink's REST and on the page."""

from __future__ import annotations

import json

from flinknet.checkpoint.pending_checkpoint import PendingCheckpoint, SubtaskReport
from flinknet.cluster.coordinator.rest.checkpoint_details import (
    PARTS,
    part_rows,
    stats_summary,
    subtask_details,
    vertex_details,
)
from flinknet.graph.graph import JobVertex
from flinknet.wire.checkpoint_options import CheckpointKind

MAP = JobVertex(1, "Map", 4, 128, "default", ())
TRIGGERED_MS = 1_000
FAST = SubtaskReport(b"", 1.0, 2.0, 3.0, 4.0, 50, 60, 70, acknowledged_ms=1_010)
SLOW = SubtaskReport(b"", 10.0, 20.0, 30.0, 40.0, 500, 0, 7, unaligned=True, acknowledged_ms=1_100)


def checkpoint() -> PendingCheckpoint:
    """Return a checkpoint of four subtasks: two have acknowledged, one had finished, and one is
    awaited."""
    made = PendingCheckpoint(
        7,
        CheckpointKind.CHECKPOINT,
        [(0, 0), (1, 0), (1, 2), (1, 3)],
        [(1, 1)],
        triggered_at=1.0,
        timestamp_ms=TRIGGERED_MS,
    )
    made.acknowledge((1, 0), FAST)
    made.acknowledge((1, 3), SLOW)
    made.acknowledge((0, 0), SLOW)
    return made


def test_a_vertex_is_the_sum_of_its_subtasks() -> None:
    assert vertex_details(MAP, checkpoint(), "IN_PROGRESS") == {
        "id": 7,
        "status": "IN_PROGRESS",
        "latest_ack_timestamp": 1_100,
        "checkpointed_size": 550,
        "state_size": 550,
        "end_to_end_duration": 100,
        "alignment_buffered": 0,
        "processed_data": 60,
        "persisted_data": 77,
        "num_subtasks": 4,
        "num_acknowledged_subtasks": 3,
    }


def test_a_vertex_without_acknowledgements_has_no_time() -> None:
    other = JobVertex(2, "Sink", 1, 128, "default", ())
    told = vertex_details(other, checkpoint(), "FAILED")
    assert (told["latest_ack_timestamp"], told["end_to_end_duration"]) == (-1, 0)
    assert told["num_acknowledged_subtasks"] == 0


def test_each_subtask_has_flinks_shape() -> None:
    told = subtask_details(MAP, checkpoint(), "IN_PROGRESS")
    json.dumps(told)
    fast, finished, pending, slow = told["subtasks"]
    assert fast == {
        "className": "completed",
        "index": 0,
        "status": "completed",
        "ack_timestamp": 1_010,
        "end_to_end_duration": 10,
        "checkpointed_size": 50,
        "state_size": 50,
        "checkpoint": {"sync": 3, "async": 4},
        "alignment": {"buffered": 0, "processed": 60, "persisted": 70, "duration": 2},
        "start_delay": 1,
        "unaligned_checkpoint": False,
        "aborted": False,
    }
    assert (finished["status"], finished["end_to_end_duration"]) == ("completed", 0)
    assert pending == {"className": "pending", "index": 2, "status": "pending_or_failed"}
    assert (slow["index"], slow["unaligned_checkpoint"]) == (3, True)
    summary = told["summary"]
    assert (summary["alignment"]["duration"]["max"], summary["start_delay"]["avg"]) == (20, 6)
    assert summary["checkpoint_duration"]["async"]["p99"] == 40.0


def test_the_page_has_a_row_for_each_subtask() -> None:
    rows = [dict(zip(PARTS, row, strict=True)) for row in part_rows([MAP], checkpoint())]
    assert [row["status"] for row in rows] == ["completed", "completed", "pending", "completed"]
    assert rows[3] == {
        "vertex": "Map",
        "subtask": 3,
        "status": "completed",
        "duration": 100,
        "start_delay": 10.0,
        "alignment": 20.0,
        "sync": 30.0,
        "async": 40.0,
        "state_size": 500,
        "processed_data": 0,
        "persisted_data": 7,
        "unaligned": True,
    }
    assert rows[2]["duration"] is None


def test_nothing_is_summed_up_to_zeros() -> None:
    assert set(stats_summary(()).values()) == {0}

"""Possible histories of checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from flinknet.checkpoint.pending_checkpoint import SubtaskReport
from flinknet.diagnosis.checkpoint_reading import CheckpointReading
from flinknet.diagnosis.topology import TaskKey

__all__ = ["checkpoint", "part"]


def part(start_s: float = 0.0, alignment_s: float = 0.0, **fields: Any) -> SubtaskReport:
    return SubtaskReport(start_delay_ms=1000 * start_s, alignment_ms=1000 * alignment_s, **fields)


def checkpoint(
    parts: Mapping[TaskKey, SubtaskReport],
    seconds: float = 10.0,
    *,
    number: int = 7,
    is_under_way: bool = False,
    has_expired: bool = False,
    finished: Collection[TaskKey] = (),
) -> CheckpointReading:
    return CheckpointReading(number, seconds, is_under_way, has_expired, parts, finished)

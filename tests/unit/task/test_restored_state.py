"""What a subtask begins with; `test_subtask_checkpoints.py` has whole jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.checkpoint.metadata import CheckpointMetadata, OperatorState
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment
from flinknet.errors import StateError
from flinknet.task.chain import OperatorChain
from flinknet.task.restored_state import RestoredState
from flinknet.wire.events import CheckpointKind
from tests.unit.task.checkpointed import store_in
from tests.unit.task.harness import context


def chain() -> OperatorChain:
    environment = StreamExecutionEnvironment()
    environment.from_source(GeneratorSource(str, 1)).print()
    (vertex,) = environment.job_graph().vertices
    return OperatorChain(vertex, context(), {})


def restored(tmp_path: Path, *operators: OperatorState) -> RestoredState:
    metadata = CheckpointMetadata(
        "job", "job", 0, 1, CheckpointKind.CHECKPOINT, 1, 2, tuple(operators)
    )
    return RestoredState(store_in(tmp_path), metadata)


async def test_an_operator_that_is_new_begins_without_state(tmp_path: Path) -> None:
    await restored(tmp_path).restore(chain(), 0, 1, 128)


async def test_key_groups_cannot_change(tmp_path: Path) -> None:
    one = chain()
    checkpoint = restored(tmp_path, OperatorState(one.uids[0], 1, 64))
    with pytest.raises(StateError, match="64 key groups in the checkpoint and 128 in the job"):
        await checkpoint.restore(one, 0, 1, 128)

"""The contexts of a function with state of its own."""

from __future__ import annotations

from flinknet.state.checkpointed_function import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinknet.state.operator_state import OperatorStateStore


def test_contexts_answer_in_flinks_names() -> None:
    store = OperatorStateStore()
    begun = FunctionInitializationContext(store, None)
    assert not begun.is_restored()
    assert begun.get_restored_checkpoint_id() is None
    continued = FunctionInitializationContext(store, 7)
    assert continued.is_restored()
    assert continued.get_restored_checkpoint_id() == 7
    assert continued.get_operator_state_store() is store
    snapshot = FunctionSnapshotContext(8, 1000)
    assert (snapshot.get_checkpoint_id(), snapshot.get_checkpoint_timestamp()) == (8, 1000)

"""All state of an operator: captured together, restored together."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.datastream import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListStateDescriptor,
    ValueStateDescriptor,
)
from flinknet.errors import StateError
from flinknet.records.key_groups import key_group, key_group_range
from flinknet.state.state_handler import OperatorSnapshot, StateHandler
from tests.unit.state.keys import Key

COUNT = ValueStateDescriptor("count")


class Positions(CheckpointedFunction):
    """Remembers its position, as a source does."""

    def __init__(self) -> None:
        self.position = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(
            ListStateDescriptor("position")
        )
        self.restored_from = context.get_restored_checkpoint_id()
        self.position = sum(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.position] * 2)
        self.taken_for = context.get_checkpoint_id(), context.get_checkpoint_timestamp()


def handler(index: int = 0, parallelism: int = 1) -> StateHandler:
    return StateHandler(operator="Count", uid="count", index=index, parallelism=parallelism)


def written(snapshot: OperatorSnapshot) -> tuple[bytes, bytes]:
    for _ in snapshot.slices():
        pass
    return b"".join(snapshot.keyed_pieces()), b"".join(snapshot.operator_pieces())


def test_everything_comes_back_at_another_parallelism() -> None:
    old, function = handler(), Positions()
    old.initialize(function)
    assert function.restored_from is None
    function.position = 5
    key = Key()
    count = old.keyed.state(COUNT, key)
    for number in range(100):
        key.current_key = number
        count.update(number)
    snapshot = old.snapshot(7, 1000)
    count.update("later")
    function.position = 6
    assert snapshot.uid == "count"
    assert function.taken_for == (7, 1000)
    keyed, operator = written(snapshot)

    for index in range(2):
        new, again = handler(index, 2), Positions()
        for _ in new.restore(7, [b"", keyed], [operator]):
            pass
        new.initialize(again)
        assert (again.restored_from, again.position) == (7, 5)
        count = new.keyed.state(COUNT, key)
        for number in range(100):
            key.current_key = number
            is_here = key_group(number, 128) in key_group_range(128, 2, index)
            assert count.value() == (number if is_here else None)


def test_a_function_without_state_of_its_own_is_not_asked() -> None:
    state = handler()
    state.initialize(max)
    assert written(state.snapshot(1, 0)) == (b"", b"")


def test_a_snapshot_that_fails_or_is_given_up_lets_go() -> None:
    state = handler()
    value: Any = state.keyed.state(COUNT, Key("a"))
    value.update(object())
    with pytest.raises(StateError, match='state "count" of operator "Count"'):
        written(state.snapshot(1, 0))
    assert not state.keyed.merge(1)
    state.snapshot(2, 0).close()
    assert not state.keyed.merge(1)
    assert type(state.keyed.entries["count"].table.live) is dict


def test_operator_state_that_cannot_be_written_captures_nothing() -> None:
    state, function = handler(), Positions()
    state.initialize(function)
    value: Any = state.keyed.state(COUNT, Key("a"))
    value.update(1)
    function.position = object()  # type: ignore[assignment]
    with pytest.raises(StateError, match='operator state "position"'):
        state.snapshot(1, 0)
    assert type(state.keyed.entries["count"].table.live) is dict

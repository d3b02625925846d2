"""State that flinknet writes, read by a reader that was written from FORMAT.md alone."""

from __future__ import annotations

import pytest

from flinknet.datastream import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinknet.records.key_groups import key_group
from flinknet.state.state_handler import StateHandler
from tests.contract import checkpoint_reader
from tests.unit.state.keys import Key

KEYS = [*range(300), "text", ("a", 1), -1, 2.5, b"bytes"]
GROUPS = 16


def parts() -> tuple[bytes, bytes]:
    """Return keyed and operator state of one subtask that has all key groups."""
    handler = StateHandler(operator="Count", uid="count", max_parallelism=GROUPS)
    key = Key()
    count = handler.keyed.state(ValueStateDescriptor("count"), key)
    seen = handler.keyed.state(ListStateDescriptor("seen"), key)
    for number, key.current_key in enumerate(KEYS):
        count.update((number, "of many"))
        seen.add([number])
    handler.operator.get_list_state(ListStateDescriptor("offsets")).update([(0, 17), [1, 18]])
    rules = handler.operator.get_broadcast_state(MapStateDescriptor("rules"))
    rules.put("rule", {"limit": 3})
    snapshot = handler.snapshot(1, 1_700_000_000_000)
    for _ in snapshot.slices():
        pass
    return b"".join(snapshot.keyed_pieces()), b"".join(snapshot.operator_pieces())


def test_a_foreign_reader_finds_every_key_in_its_group() -> None:
    found = checkpoint_reader.keyed_state(parts()[0])
    assert list(found) == ["count", "seen"]
    for number, key in enumerate(KEYS):
        group = key_group(key, GROUPS)
        assert dict(found["count"][group])[key] == (number, "of many")
        assert dict(found["seen"][group])[key] == [[number]]
    assert sum(map(len, found["count"].values())) == len(KEYS)


def test_a_foreign_reader_finds_every_element() -> None:
    found = checkpoint_reader.operator_state(parts()[1])
    assert found == {"offsets": [(0, 17), [1, 18]], "rules": [("rule", {"limit": 3})]}


@pytest.mark.parametrize("at", [3, 12, 30, -2])
def test_a_foreign_reader_finds_the_changes(at: int) -> None:
    for part, read in zip(
        parts(), (checkpoint_reader.keyed_state, checkpoint_reader.operator_state), strict=True
    ):
        changed = bytearray(part)
        changed[at] ^= 1
        with pytest.raises(ValueError, match="damaged"):
            read(bytes(changed))

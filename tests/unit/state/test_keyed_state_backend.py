"""The heap backend keeps everything in memory; the tests of state cover all backends."""

from __future__ import annotations

from flinknet.state.keyed_state_backend import HeapKeyedStateBackend


def test_the_heap_has_tables_apart_and_nothing_on_disk() -> None:
    backend = HeapKeyedStateBackend()
    one, other = backend.table("one"), backend.table("other")
    one.live["a"] = 1
    assert len(other) == 0
    one.trim()
    assert type(one.live) is dict
    assert backend.disk_entries([one.capture()]) is None
    assert backend.directory is None
    assert not backend.is_on_disk
    backend.close()
    assert one.live["a"] == 1

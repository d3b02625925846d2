"""The printed lines of each job, kept apart."""

from __future__ import annotations

from flinknet.cluster.coordinator.metrics.printed_store import PrintedStore


def test_each_job_has_its_own_lines_until_it_is_forgotten() -> None:
    store = PrintedStore(100)
    store.take("a", ["one", "two"])
    store.take("b", ["three"])
    assert store.after("a", 1) == (1, ["two"])
    assert store.after("b", 0) == (0, ["three"])
    store.forget("a")
    assert store.after("a", 0) == (0, [])

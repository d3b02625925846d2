"""Which coordinator owns a state directory, without relying on its lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.coordinator.jobs import epoch
from flinknet.cluster.coordinator.jobs.epoch import Epoch
from flinknet.errors import CoordinatorSupersededError


def holds(epoch: Epoch) -> bool:
    try:
        epoch.check()
    except CoordinatorSupersededError:
        return False
    return True


def test_only_the_last_coordinator_holds_the_directory(tmp_path: Path) -> None:
    taken = [Epoch.take(tmp_path) for _ in range(4)]
    assert [epoch.number for epoch in taken] == [1, 2, 3, 4]
    assert {epoch.state_id for epoch in taken} == {taken[0].state_id}
    assert [holds(epoch) for epoch in taken] == [False, False, False, True]
    assert [entry.name for entry in (tmp_path / "epochs").iterdir()] == ["4"]


def test_a_superseded_coordinator_is_notified_of_its_successor(tmp_path: Path) -> None:
    first = Epoch.take(tmp_path)
    heard: list[CoordinatorSupersededError] = []
    first.on_superseded = heard.append
    first.check()
    assert not heard
    Epoch.take(tmp_path)
    with pytest.raises(CoordinatorSupersededError, match="of epoch 1, .*of epoch 2;") as why:
        first.check()
    assert heard == [why.value]


def test_a_slow_start_takes_no_number_of_another_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two more coordinators begin between its look at the numbers and the creation of its own."""
    create = epoch._create
    Epoch.take(tmp_path)
    taken: list[Epoch] = []

    def create_later(*arguments: Any, **options: Any) -> bool:
        monkeypatch.setattr(epoch, "_create", create)
        taken.extend(Epoch.take(tmp_path) for _ in range(2))
        return create(*arguments, **options)

    monkeypatch.setattr(epoch, "_create", create_later)
    taken.append(Epoch.take(tmp_path))
    assert [one.number for one in taken] == [2, 3, 4]
    assert [holds(one) for one in taken] == [False, False, True]
    assert len({one.state_id for one in taken}) == 1


def test_one_of_many_concurrent_coordinators_rules(tmp_path: Path) -> None:
    taken: list[Epoch] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        taken.append(Epoch.take(tmp_path, durable=False))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [epoch.number for epoch in taken]
    ruling = [epoch.number for epoch in taken if holds(epoch)]
    assert len(ruling) == 1, numbers


def test_a_coordinator_with_an_old_number_does_not_rule(tmp_path: Path) -> None:
    """It had looked before others came and went, and their files have been removed."""
    for _ in range(3):
        Epoch.take(tmp_path)
    (tmp_path / "epochs" / "2").write_text("")
    assert not holds(Epoch(tmp_path / "epochs", 2, ""))


def remove(directory: Path) -> None:
    (directory / "epochs" / "1").unlink()


@pytest.mark.parametrize("change", [remove, Epoch.take])
def test_a_coordinator_whose_number_is_missing_does_not_rule(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    epoch = Epoch.take(tmp_path)
    change(tmp_path)
    with pytest.raises(CoordinatorSupersededError, match=r"state_directory\)"):
        epoch.check()


def test_an_unresponsive_directory_does_not_supersede_a_coordinator(tmp_path: Path) -> None:
    epoch = Epoch.take(tmp_path)
    (tmp_path / "epochs").rename(tmp_path / "away")
    (tmp_path / "epochs").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        epoch.check()


@pytest.mark.parametrize(
    ("of_this_directory", "number", "rules"),
    [(True, 0, True), (True, 2, True), (True, 3, False), (False, 3, True)],
)
def test_what_a_worker_says(
    tmp_path: Path, of_this_directory: bool, number: int, rules: bool
) -> None:
    """A number of another directory does not compare."""
    Epoch.take(tmp_path)
    epoch = Epoch.take(tmp_path)
    state_id = epoch.state_id if of_this_directory else "another"
    if rules:
        epoch.hear(state_id, number)
    else:
        with pytest.raises(CoordinatorSupersededError, match="has served .* epoch 3"):
            epoch.hear(state_id, number)


@pytest.mark.parametrize(("options", "is_durable"), [({}, True), ({"durable": False}, False)])
def test_an_epoch_is_on_disk_unless_that_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, bool], is_durable: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    Epoch.take(tmp_path, **options)
    assert bool(synced) == is_durable

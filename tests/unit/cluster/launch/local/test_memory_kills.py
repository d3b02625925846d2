"""Kills for lack of memory, as the files of a control group count them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.cluster.launch.local.memory_kills import MemoryKills

V1 = "12:cpu,cpuacct:/job\n9:memory:/job\n1:name=systemd:/job\n"
V2 = "0::/user.slice/job\n"
PLACES = {
    "version 2": (V2, "sys/fs/cgroup/user.slice/job/memory.events"),
    "version 2, in a container": ("0::/../job\n", "sys/fs/cgroup/memory.events"),
    "version 1": (V1, "sys/fs/cgroup/memory/job/memory.oom_control"),
    "version 1, in a container": (V1, "sys/fs/cgroup/memory/memory.oom_control"),
}


def write(file: Path, count: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"low 0\noom {count + 5}\noom_kill {count}\noom_group_kill 9\n")


@pytest.mark.parametrize("place", PLACES)
def test_an_increased_count_is_reported_once(tmp_path: Path, place: str) -> None:
    groups, name = PLACES[place]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    write(tmp_path / name, 3)
    kills = MemoryKills(tmp_path)
    assert kills.hint() == ""
    write(tmp_path / name, 4)
    hint = kills.hint()
    assert "likely because memory ran out" in hint
    assert f"{tmp_path / name}: oom_kill 4" in hint
    assert "cluster.slots_per_worker" in hint
    assert kills.hint() == ""


@pytest.mark.parametrize("groups", [None, "", "4:cpu:/job\n", V2])
def test_nothing_is_reported_without_a_count(tmp_path: Path, groups: str | None) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    if groups is not None:
        (tmp_path / "proc/self/cgroup").write_text(groups)
    assert MemoryKills(tmp_path).hint() == ""


def test_the_count_of_this_machine_is_optional() -> None:
    assert MemoryKills().hint() == ""

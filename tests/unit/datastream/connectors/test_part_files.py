"""The files of a job with checkpoints: who sees what, and what is left over."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from flinknet.datastream.connectors.part_files import PartFiles
from flinknet.errors import ConfigurationError, JobFailedError


def parts(path: Path, attempt: int = 0, job_id: str = "job1") -> PartFiles:
    made = PartFiles(path / "out", job_id, attempt)
    made.open(restored=attempt > 0)
    return made


def write(files: PartFiles, index: int, number: int) -> str:
    name = files.name(index, 2, number)
    files.writable(name).write_text(name)
    return name


def visible(path: Path) -> list[str]:
    return sorted(entry.name for entry in (path / "out").iterdir() if entry.name[0] != ".")


def hidden(path: Path) -> list[str]:
    return sorted(entry.name[1:] for entry in (path / "out").iterdir() if entry.name[0] == ".")


def test_a_file_is_visible_when_it_is_committed_and_from_then_on(tmp_path: Path) -> None:
    files = parts(tmp_path)
    first, second = write(files, 0, 0), write(files, 1, 0)
    files.persist([first, second])
    assert visible(tmp_path) == []
    files.publish([first])
    files.publish([first])
    files.persist([first])
    assert (visible(tmp_path), hidden(tmp_path)) == ([first], [second])
    files.publish([])
    assert first == "part-00000-of-00002-job1-0-0.parquet"


def test_what_is_gone_is_not_taken_for_committed(tmp_path: Path) -> None:
    with pytest.raises(JobFailedError, match="is gone, which a checkpoint has as prepared"):
        parts(tmp_path).publish(["part-00000-of-00001-job1-0-0.parquet"])


@pytest.mark.parametrize("own", [{0}, {1}, {0, 1}])
def test_the_next_attempt_keeps_what_its_checkpoint_has(
    tmp_path: Path, own: Collection[int]
) -> None:
    before = parts(tmp_path)
    kept = [write(before, index, 0) for index in range(2)]
    lost = [write(before, index, 1) for index in range(2)]
    other = write(parts(tmp_path, 1, "job2"), 0, 0)
    now = parts(tmp_path, 1)
    mine = write(now, 0, 0)
    now.discard(kept, lambda index: index in own)
    left = [lost[index] for index in range(2) if index not in own]
    assert hidden(tmp_path) == sorted([*kept, *left, other, mine])


def test_the_last_commit_leaves_nothing_behind(tmp_path: Path) -> None:
    files = parts(tmp_path)
    last, zombie = write(files, 0, 5), write(files, 1, 9)
    other = write(parts(tmp_path, 1, "job2"), 0, 0)
    assert zombie
    files.finish([last])
    files.finish([last])
    assert (visible(tmp_path), hidden(tmp_path)) == ([last], [other])


def test_a_new_job_does_not_add_to_the_result_of_another(tmp_path: Path) -> None:
    files = parts(tmp_path)
    files.publish([write(files, 0, 0)])
    with pytest.raises(ConfigurationError, match="which this job has not written and cannot"):
        parts(tmp_path, 0, "job2")
    parts(tmp_path)
    parts(tmp_path, 1, "job2")


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConfigurationError, match="is a file: choose a directory"):
        parts(tmp_path)

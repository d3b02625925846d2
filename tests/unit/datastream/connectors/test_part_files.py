"""The files of a job with checkpoints: their visibility, and leftovers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from flinknet.datastream.connectors.part_files import PartFiles
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.state.state_handler import RestoredCheckpoint


def parts(path: Path, attempt: int = 0, job_id: str = "job1") -> PartFiles:
    made = PartFiles(path / "out", job_id, attempt)
    made.open(RestoredCheckpoint(job_id, 1) if attempt else None, may_repeat=False)
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
    files.publish(7, [first])
    files.publish(7, [first])
    files.publish(0, [first])  # By another job, which continues from a checkpoint of this one.
    files.persist([first])
    committed = "part-00000-of-00002-job1-0-0-7.parquet"
    assert (visible(tmp_path), hidden(tmp_path)) == ([committed], [second])
    files.publish(8, [])
    assert first == "part-00000-of-00002-job1-0-0.parquet"


def test_a_missing_file_is_not_taken_for_committed(tmp_path: Path) -> None:
    with pytest.raises(JobFailedError, match="is missing, although a checkpoint refers to it"):
        parts(tmp_path).publish(1, ["part-00000-of-00001-job1-0-0.parquet"])


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
    files.publish(3, [last])
    files.finish()
    files.finish()
    assert visible(tmp_path) == ["part-00000-of-00002-job1-0-5-3.parquet"]
    assert hidden(tmp_path) == [other]


def test_files_committed_with_later_checkpoints_are_withdrawn(tmp_path: Path) -> None:
    """This concerns one subtask of one job.

    A worker that was taken for dead can commit none of it.
    """
    files = parts(tmp_path)
    for number in (1, 2, 9, 10):
        files.publish(number, [write(files, 0, number)])
    files.publish(10, [write(files, 1, 0)])
    late = write(files, 0, 11)
    other = parts(tmp_path, 1, "job2")
    other.publish(10, [write(other, 0, 0)])
    now = parts(tmp_path, 1)
    now.discard([], lambda index: index == 0)
    for _ in range(2):
        now.withdraw_after(2, 0)
    assert visible(tmp_path) == [
        "part-00000-of-00002-job1-0-1-1.parquet",
        "part-00000-of-00002-job1-0-2-2.parquet",
        "part-00000-of-00002-job2-1-0-10.parquet",
        "part-00001-of-00002-job1-0-0-10.parquet",
    ]
    with pytest.raises(JobFailedError, match="returned to an older checkpoint"):
        files.publish(11, [late])


def test_a_new_job_does_not_add_to_the_result_of_another(tmp_path: Path) -> None:
    files = parts(tmp_path)
    files.publish(1, [write(files, 0, 0)])
    with pytest.raises(ConfigurationError, match="which is not from this job and which it cannot"):
        parts(tmp_path, 0, "job2")
    parts(tmp_path)
    parts(tmp_path, 1, "job2")


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConfigurationError, match="is a file: choose a directory"):
        parts(tmp_path)

"""Files of a sink in a store: their visibility, wherever a commit is interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from flinknet.datastream.connectors.locations import RemoteLocation
from flinknet.datastream.connectors.output_directory import MANIFEST
from flinknet.datastream.connectors.part_names import PartNames
from flinknet.datastream.connectors.remote_output import RemoteDirectory, RemoteParts
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.state.state_handler import RestoredCheckpoint

NAMES = PartNames(suffix=".txt")


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RemoteLocation]:
    yield RemoteLocation(f"{request.param}://{tmp_path}/out")
    fsspec.filesystem("memory").store.clear()


def names_in(location: RemoteLocation) -> list[str]:
    filesystem = location.filesystem()
    if not filesystem.exists(location.path):
        return []
    return sorted(path.rpartition("/")[2] for path in filesystem.ls(location.path, detail=False))


def visible(location: RemoteLocation) -> list[str]:
    return [name for name in names_in(location) if name[0] not in "._"]


def parts(place: RemoteLocation, attempt: int = 0, job_id: str = "job1") -> RemoteParts:
    made = RemoteParts(place, job_id, attempt, NAMES)
    made.open(RestoredCheckpoint(job_id, 1) if attempt else None, may_repeat=False)
    return made


def write(output: RemoteParts | RemoteDirectory, index: int, number: int = 0) -> str:
    name = output.name(index, 2, number)
    output.writable(name).write_text(name)
    return name


# -- with checkpoints ------------------------------------------------------------------------------


def test_an_object_is_there_when_it_is_sent_and_seen_when_it_is_committed(
    place: RemoteLocation,
) -> None:
    files = parts(place)
    first, second = write(files, 0), write(files, 1)
    scratch = files.writable(first).parent
    assert names_in(place) == []
    for _ in range(2):
        files.persist([first, second])
    assert (names_in(place), visible(place)) == ([f".{first}", f".{second}"], [])
    for _ in range(2):
        files.publish(7, [first])
    committed = "part-00000-of-00002-job1-0-0-7.txt"
    assert names_in(place) == [f".{second}", committed]
    with (place / committed).open() as opened:
        assert opened.read() == first.encode()
    write(files, 0, 1)
    files.close()
    assert not scratch.exists()


def test_a_missing_file_is_not_taken_for_committed(place: RemoteLocation) -> None:
    with pytest.raises(JobFailedError, match="was removed before its commit"):
        parts(place).publish(1, ["part-00000-of-00001-job1-0-0.txt"])


def test_the_next_attempt_keeps_what_its_checkpoint_has(place: RemoteLocation) -> None:
    before = parts(place)
    kept, lost, other = write(before, 0), write(before, 0, 1), write(before, 1)
    before.persist([kept, lost, other])
    before.close()
    now = parts(place, 1)
    now.discard([kept], lambda index: index == 0)
    assert names_in(place) == [f".{kept}", f".{other}"]
    last = write(now, 0)
    now.persist([last])
    strange = parts(place, 1, "job2")
    strange.persist([write(strange, 0)])
    now.publish(2, [kept, last])
    now.finish()
    assert visible(place) == [NAMES.with_checkpoint(name, 2) for name in (kept, last)]
    assert names_in(place)[0].startswith(".part-00000-of-00002-job2"), "another job's stays"
    now.close()
    strange.close()


def test_a_new_job_wants_an_empty_place(place: RemoteLocation) -> None:
    files = parts(place)
    name = write(files, 0)
    files.persist([name])
    files.publish(1, [name])
    files.close()
    parts(place)
    parts(place, 1, "job2")
    with pytest.raises(ConfigurationError, match=r"out holds part-.*, which is not from this job"):
        parts(place, 0, "job2")
    with pytest.raises(ConfigurationError, match=r"txt is a file: choose a directory"):
        parts(place / NAMES.with_checkpoint(name, 1))


def test_files_committed_with_later_checkpoints_are_withdrawn(place: RemoteLocation) -> None:
    files = parts(place)
    for number in (1, 2, 3):
        name = write(files, 0, number)
        files.persist([name])
        files.publish(number, [name])
    files.close()
    now = parts(place, 1)
    for _ in range(2):
        now.withdraw_after(1, 1)
    assert len(visible(place)) == 3, "another subtask's"
    for _ in range(2):
        now.withdraw_after(1, 0)
    assert visible(place) == ["part-00000-of-00002-job1-0-1-1.txt"]


def test_a_copy_that_was_cut_off_is_not_committed_again_by_the_next_job(
    place: RemoteLocation,
) -> None:
    """The store cannot rename: both the copy and its original exist."""
    files = parts(place)
    name = write(files, 0)
    files.persist([name])
    files.publish(5, [name])
    written = NAMES.with_checkpoint(name, 5)
    place.filesystem().cp_file((place / written).path, (place / f".{name}").path)
    files.publish(0, [name])
    assert names_in(place) == [written]
    files.close()


# -- without checkpoints ---------------------------------------------------------------------------


def staged(place: RemoteLocation, transaction: str) -> tuple[RemoteDirectory, list[str]]:
    output = RemoteDirectory(place, transaction, NAMES)
    output.open()
    names = [write(output, index) for index in range(2)]
    assert visible(place) == visible(place)
    output.persist(names)
    output.close()
    return output, names


def test_a_result_takes_the_place_of_the_one_before(place: RemoteLocation) -> None:
    assert visible(place) == []
    output, names = staged(place, "job1-0")
    assert visible(place) == [], "nothing is seen before the commit"
    for _ in range(2):
        output.commit(names)
    assert names_in(place) == [MANIFEST, *names]
    later, new = staged(place, "job2-0")
    assert visible(place) == names
    later.commit(new)
    assert visible(place) == new
    with (place / MANIFEST).open() as opened:
        assert json.load(opened) == {"transaction": "job2-0", "files": new}
    assert [name for name in names_in(place.parent) if "staging" in name] == []
    later.abort()
    assert visible(place) == new


def test_a_job_that_fails_changes_nothing(place: RemoteLocation) -> None:
    output, names = staged(place, "job1-0")
    output.commit(names)
    failed, _ = staged(place, "job2-0")
    for _ in range(2):
        failed.abort()
    assert visible(place) == names
    assert names_in(place.parent) == ["out"]


class CutOffError(Exception):
    """The worker has died."""


class CutOff(RemoteDirectory):
    """Commits this many objects, and then dies."""

    steps = 1

    def _move(self, source: RemoteLocation, target: RemoteLocation) -> None:
        if not self.steps:
            raise CutOffError
        self.steps -= 1
        super()._move(source, target)


@pytest.mark.parametrize("aborts", [False, True])
def test_a_commit_that_is_cut_off_is_done_to_its_end_or_undone(
    place: RemoteLocation, aborts: bool
) -> None:
    before, old = staged(place, "job1-0")
    before.commit(old)
    output, new = staged(place, "job2-0")
    with pytest.raises(CutOffError):
        CutOff(place, "job2-0", NAMES).commit(new)
    assert visible(place) == sorted([*old, new[0]]), "the result before is whole all the time"
    if aborts:
        output.abort()
        assert visible(place) == old
    else:
        output.commit(new)
        assert visible(place) == new


def test_files_of_other_programs_are_not_replaced(place: RemoteLocation) -> None:
    output, names = staged(place, "job1-0")
    output.commit(names)
    other = RemoteDirectory(place, "job2-0", PartNames("other", ".csv"))
    other.open()
    other.commit([])
    assert names_in(place) == [MANIFEST], "the manifest says whose files were there"
    place.filesystem().pipe_file((place / "notes.txt").path, b"mine")
    with pytest.raises(
        ConfigurationError, match="out holds notes.txt, which was not written by a job"
    ):
        other.open()
    place.filesystem().pipe_file((place / MANIFEST).path, b"[]")
    other.abort()
    assert names_in(place) == [MANIFEST, "notes.txt"]

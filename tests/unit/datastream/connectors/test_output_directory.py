"""An output directory holds one whole result or the next, wherever a commit is interrupted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flinknet.datastream.connectors.output_directory import MANIFEST, OutputDirectory
from flinknet.errors import ConfigurationError, JobFailedError

ROOT = Path(__file__).parents[4]

CUT_OFF = """
import ctypes, json, os, sys
from pathlib import Path
from flinknet.datastream.connectors.output_directory import OutputDirectory

folder, exchanges = Path(sys.argv[1]), sys.argv[2] == "exchange"
if not exchanges:
    def no_library(*_, **__):
        raise OSError("this system cannot exchange directories")
    ctypes.CDLL = no_library

STEPS = ("os.", "open", "shutil.", "ctypes.dlsym")

def stage(path, transaction):
    output = OutputDirectory(path, transaction)
    output.open()
    files = [f"part-{index:05d}-of-00003-{transaction}.parquet" for index in range(3)]
    for name in files:
        (output.staging / name).write_text(transaction)
    return output, files

def seen(path):
    # What a reader of the directory finds: the transactions that its visible files are of.
    if not path.exists():
        return None
    return sorted(file.read_text() for file in path.iterdir() if file.name[0] not in "._")

def beside(path):
    return sorted(entry.name for entry in path.parent.iterdir() if entry != path)

step, ended = 0, False
while not ended:
    path = folder / str(step) / "out"
    path.parent.mkdir()
    before, files = stage(path, "before")
    before.commit(files)
    output, files = stage(path, "after")
    child = os.fork()
    if child == 0:
        left = step
        def cut_off(event, arguments):
            global left
            if event.startswith(STEPS):
                if left == 0:
                    os._exit(9)
                left -= 1
        sys.addaudithook(cut_off)
        output.commit(files)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    at_once = seen(path)
    mode, again = step % 2, OutputDirectory(path, "after")
    if mode:
        again.commit(files)  # by another worker
        at_last = seen(path)
    else:
        again.abort()
        stage(path, "next")[0].abort()  # the next job, which fails
        at_last = seen(path)
        final, files = stage(path, "last")
        final.commit(files)
    print(json.dumps([ended, at_once, mode, at_last, beside(path)]))
    step += 1
"""


def visible(path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in path.iterdir() if file.name[0] not in "._"}


def staged(path: Path, transaction: str, files: int = 2) -> tuple[OutputDirectory, list[str]]:
    output = OutputDirectory(path, transaction)
    output.open()
    names = [f"part-{index:05d}-of-{files:05d}-{transaction}.parquet" for index in range(files)]
    for name in names:
        (output.staging / name).write_text(transaction)
    return output, names


@pytest.mark.parametrize("how", ["exchange", "two renames"])
def test_readers_see_one_whole_result_wherever_a_commit_is_cut_off(
    tmp_path: Path, how: str
) -> None:
    """The process ends at each of the steps. Then the commit is repeated or aborted."""
    ended = subprocess.run(
        [sys.executable, "-c", CUT_OFF, tmp_path, how],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    trials = [json.loads(line) for line in ended.stdout.splitlines()]
    before, after = ["before"] * 3, ["after"] * 3
    assert len(trials) > 10
    assert trials[-1][:2] == [True, after]
    assert [trial[1] for trial in trials].count(before) > 3
    for was_complete, at_once, mode, at_last, beside in trials:
        # With two renames, readers see no directory for a moment.
        assert at_once in ([before, after] if how == "exchange" else [before, after, None])
        if mode:
            assert at_last == after, "the same commit, called again, goes on"
        else:
            expected = [after] if was_complete else [before, after]
            assert at_last in expected, "a failed job changes nothing"
        assert beside == [], "nothing is left over after the next commit"


def test_a_commit_replaces_everything_at_once(tmp_path: Path) -> None:
    path = tmp_path / "out"
    first, names = staged(path, "first", 3)
    assert not path.exists()
    first.commit(names)
    assert visible(path) == dict.fromkeys(names, "first")
    second, names = staged(path, "second", 2)
    assert set(visible(path).values()) == {"first"}
    second.commit(names)
    assert visible(path) == dict.fromkeys(names, "second")
    assert json.loads((path / MANIFEST).read_text()) == {"transaction": "second", "files": names}
    assert list(tmp_path.iterdir()) == [path]


def test_committing_twice_is_committing_once(tmp_path: Path) -> None:
    output, names = staged(tmp_path / "out", "first")
    output.commit(names)
    OutputDirectory(tmp_path / "out", "first").commit(names)
    output.abort()
    assert visible(tmp_path / "out") == dict.fromkeys(names, "first")


def test_a_commit_that_is_called_while_it_runs_waits_for_itself(tmp_path: Path) -> None:
    """A second commit at the same time would exchange the directories back."""
    for turn in range(30):
        path = tmp_path / str(turn) / "out"
        for transaction in ("before", "after"):
            path.parent.mkdir(exist_ok=True)
            output, files = staged(path, transaction)
            others = [OutputDirectory(path, transaction) for _ in range(3)]
            with ThreadPoolExecutor(4) as pool:
                commits = [pool.submit(one.commit, files) for one in (output, *others)]
            assert [commit.result() for commit in commits] == [None] * 4
            assert set(visible(path).values()) == {transaction}


def test_a_directory_that_is_gone_is_not_committed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "out"
    path.parent.mkdir()
    output, files = staged(path, "job")
    shutil.rmtree(path.parent)
    with pytest.raises(JobFailedError, match="was removed before its commit"):
        output.commit(files)


def test_an_aborted_transaction_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out"
    first, names = staged(path, "first")
    first.commit(names)
    second, _ = staged(path, "second")
    second.abort()
    second.abort()
    assert visible(path) == dict.fromkeys(names, "first")
    assert list(tmp_path.iterdir()) == [path]


def test_only_what_was_prepared_is_committed(tmp_path: Path) -> None:
    output, names = staged(tmp_path / "out", "first")
    (output.staging / "part-00007-of-00009-lost.parquet").write_text("half a file")
    output.commit(names)
    assert sorted(visible(tmp_path / "out")) == names


def test_of_two_jobs_at_the_same_time_one_is_seen_and_the_other_fails(tmp_path: Path) -> None:
    path = tmp_path / "out"
    first, first_names = staged(path, "first")
    second, second_names = staged(path, "second")
    second.commit(second_names)
    with pytest.raises(JobFailedError, match="removed before its commit: only one job at a time"):
        first.commit(first_names)
    assert visible(path) == dict.fromkeys(second_names, "second")


@pytest.mark.parametrize("name", ["notes.txt", "other.parquet", "_SUCCESS", "folder/"])
def test_files_of_other_programs_are_not_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / "out"
    output, names = staged(path, "first")
    path.mkdir()
    (path / name).mkdir() if name.endswith("/") else (path / name).write_text("mine")
    with pytest.raises(ConfigurationError, match=f"holds {name.strip('/')}, which was not written"):
        OutputDirectory(path, "second").open()
    with pytest.raises(ConfigurationError, match="which was not written by a job"):
        output.commit(names)
    assert (path / name).exists()


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigurationError, match="is a file: choose a directory"):
        OutputDirectory(tmp_path / "out", "first").open()


def test_an_output_behind_a_link_is_replaced_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "far" / "real")
    first, names = staged(tmp_path / "out", "first")
    first.commit(names)
    second, names = staged(tmp_path / "out", "second")
    second.commit(names)
    assert (tmp_path / "out").is_symlink()
    assert visible(tmp_path / "far" / "real") == dict.fromkeys(names, "second")

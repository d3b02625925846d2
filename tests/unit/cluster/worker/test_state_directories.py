"""Files of running jobs go with their worker, also with one that was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.cluster.worker.state_directories import StateDirectories
from flinknet.errors import StateError

ROOT = Path(__file__).parents[4]

WORKER = """
import sys
from flinknet.cluster.worker.state_directories import StateDirectories
directories = StateDirectories(sys.argv[1])
directory = directories.of_attempt("job", 0)
directory.mkdir()
(directory / "rows").write_text("state")
print(directory, flush=True)
sys.stdin.read()
"""


def test_a_worker_has_one_directory_and_removes_it(tmp_path: Path) -> None:
    directories = StateDirectories(str(tmp_path / "base"))
    assert not (tmp_path / "base").exists(), "nothing is made before it is needed"
    first, second = directories.of_attempt("job", 0), directories.of_attempt("job", 1)
    assert first.parent == second.parent
    assert first.parent.parent == tmp_path / "base"
    first.mkdir()
    directories.close()
    directories.close()
    assert list((tmp_path / "base").iterdir()) == []


def test_what_a_killed_worker_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "flinknet-state-without-a-lock").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        assert directory.exists()
        directories = StateDirectories(str(tmp_path))
        assert directories.remove_leftovers() == [], "its worker is there"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (directory / "rows").exists()
    assert directories.remove_leftovers() == [directory.parent]
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["flinknet-state-without-a-lock", "other"]


def test_the_systems_directory_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert StateDirectories("").base == tmp_path


def test_a_place_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(StateError, match=r"no place .* in .*/file/base: .*rocksdb_directory"):
        StateDirectories(str(tmp_path / "file" / "base")).of_attempt("job", 0)

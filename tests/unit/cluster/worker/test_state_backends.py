"""The state backend of a job's subtasks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flinknet.cluster.worker.state_backends import StateBackends, StateDirectories
from flinknet.config.state import StateConfig
from flinknet.errors import ConfigurationError, StateError
from flinknet.state.value_serializer import ValueSerializer


def test_the_job_says_or_else_the_configuration(tmp_path: Path) -> None:
    heap = StateBackends(StateConfig(rocksdb_directory=str(tmp_path)))
    disk = StateBackends(StateConfig(backend="rocksdb", rocksdb_directory=str(tmp_path)))
    assert heap.of_attempt("job", 0, None).of_subtask("0-0") is None
    assert disk.of_attempt("job", 0, "hashmap").of_subtask("0-0") is None
    assert list(tmp_path.iterdir()) == []
    heap.of_attempt("job", 0, None).close()
    assert heap.of_attempt("job", 0, "rocksdb").of_subtask("0-0") is not None
    assert disk.of_attempt("job", 0, None).of_subtask("0-0") is not None
    heap.directories.close()
    disk.directories.close()


def test_operators_have_databases_apart_that_go_with_the_attempt(tmp_path: Path) -> None:
    backends = StateBackends(StateConfig(rocksdb_directory=str(tmp_path)))
    attempt = backends.of_attempt("job", 0, "rocksdb")
    make = attempt.of_subtask("0-0")
    assert make is not None
    one, other = (make(f"operator {number}", ValueSerializer(), 16) for number in range(2))
    one.table("count").live["a"] = 1
    assert len(other.table("count")) == 0
    directory = one.directory
    assert directory is not None
    assert Path(directory).exists()
    assert directory != other.directory
    attempt.close()
    attempt.close()
    assert not Path(directory).parent.exists()
    backends.directories.close()
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    backends = StateBackends(StateConfig(rocksdb_directory=str(tmp_path)))
    with pytest.raises(ConfigurationError, match=r"install flinknet\[rocksdb\] where workers run"):
        backends.of_attempt("job", 0, "rocksdb")
    assert list(tmp_path.iterdir()) == []


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


def test_the_directory_of_another_running_worker_is_left_alone(tmp_path: Path) -> None:
    """Directories of dead workers are removed (`config/test_locked_directory.py`)."""
    first, second = StateDirectories(str(tmp_path)), StateDirectories(str(tmp_path))
    directory = first.of_attempt("job", 0)
    assert second.remove_leftovers() == []
    assert directory.parent.exists()
    first.close()


def test_the_systems_directory_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert StateDirectories("").base == tmp_path


def test_an_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(StateError, match=r"be kept in .*/file/base: .*rocksdb_directory"):
        StateDirectories(str(tmp_path / "file" / "base")).of_attempt("job", 0)

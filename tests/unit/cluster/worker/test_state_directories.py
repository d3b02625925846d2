"""Files of running jobs go with their worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.cluster.worker.state_directories import StateDirectories
from flinknet.errors import StateError


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


def test_what_another_worker_still_has_is_left_alone(tmp_path: Path) -> None:
    """What one has left that is gone is removed (`config/test_locked_directory.py`)."""
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


def test_a_place_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(StateError, match=r"no place .* in .*/file/base: .*rocksdb_directory"):
        StateDirectories(str(tmp_path / "file" / "base")).of_attempt("job", 0)

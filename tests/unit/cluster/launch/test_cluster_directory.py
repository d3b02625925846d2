"""The directory of a long-lived cluster: its lock tells whether the cluster lives."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from flinknet.cluster.launch.cluster_directory import ClusterDirectory, RunningCluster
from flinknet.errors import ConfigurationError

RUNNING = RunningCluster(4711, "127.0.0.1:8081", "http://127.0.0.1:8081/", "")


@pytest.fixture
def directory(tmp_path: Path) -> ClusterDirectory:
    return ClusterDirectory("demo", {"XDG_STATE_HOME": str(tmp_path)})


def test_the_directory_and_the_token_are_private_to_the_user(directory: ClusterDirectory) -> None:
    os.close(directory.lock())
    token = directory.keep_token(None)
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory.path / "token").stat().st_mode) == 0o600
    assert directory.token() == token == directory.keep_token(None), "it stays the cluster's"
    assert directory.keep_token("another") == directory.token() == "another"


def test_the_lock_says_whether_the_cluster_runs(directory: ClusterDirectory) -> None:
    assert not directory.is_locked(), "there is no directory"
    lock = directory.lock()
    directory.write_running(RUNNING)
    assert directory.is_locked()
    with pytest.raises(ConfigurationError, match="demo is already running at 127.0.0.1:8081"):
        directory.lock()
    os.close(lock)
    assert not directory.is_locked()
    assert directory.running() == RUNNING, "it has died"
    directory.remove_running()
    assert directory.running() is None


def test_the_end_of_the_log_is_read(directory: ClusterDirectory) -> None:
    assert directory.last_lines(2) == []
    os.close(directory.lock())
    directory.log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert directory.last_lines(2) == ["line 9998", "line 9999"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "a:1", "a" * 65, "a\n"])
def test_a_name_that_is_not_a_plain_directory_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the name of a cluster"):
        ClusterDirectory(name)

"""The cluster of a command that names none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinknet.cli.cluster_client import running_cluster
from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.launch.cluster_directory import ClusterDirectory, RunningCluster
from flinknet.errors import ConfigurationError

TOKEN = "0123456789abcdef"


def test_the_configuration_goes_before_the_default_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="use --cluster NAME"):
        running_cluster(None, None)
    directory = ClusterDirectory("default")
    lock = directory.lock()
    directory.keep_token(TOKEN)
    directory.write_running(RunningCluster(1, "127.0.0.1:1", "http://127.0.0.1:1/", ""))
    assert running_cluster(None, None).address == "127.0.0.1:1"
    monkeypatch.setenv("FLINKNET_CLUSTER_COORDINATOR_PORT", "2")
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert running_cluster(None, None).address == "127.0.0.1:2"
    os.close(lock)

"""A cluster that does not start; `tests/integration/test_local_cluster.py` tests running ones."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import pytest

from flinknet.cluster.launch.cluster import Cluster, finish_stopping
from flinknet.cluster.launch.local.launcher import LocalLauncher
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.config.locked_directory import LockedDirectory
from flinknet.errors import ConfigurationError, JobError, LocalProtocolError
from tests.unit.cluster.graphs import keyed_graph


async def test_a_job_needs_a_cluster_that_was_entered() -> None:
    with pytest.raises(LocalProtocolError, match="inside `async with`"):
        await Cluster(FlinknetConfig(), LocalLauncher).execute(keyed_graph())


async def test_an_invalid_cluster_is_refused_before_anything_is_started() -> None:
    config = FlinknetConfig(cluster=ClusterConfig(host="192.0.2.1"))
    cluster = Cluster(config, LocalLauncher)
    with pytest.raises(ConfigurationError, match="set a secret in"):
        await cluster.__aenter__()
    assert cluster.address == ""


async def test_a_cluster_that_does_not_start_in_time_leaves_nothing() -> None:
    config = FlinknetConfig(cluster=ClusterConfig(workers=1, start_timeout_ms=1.0))
    cluster = Cluster(config, LocalLauncher)
    with pytest.raises(JobError, match=r"within 1 ms: raise cluster\.start_timeout_ms"):
        await cluster.__aenter__()
    with pytest.raises(LocalProtocolError, match="not running"):
        await cluster.execute(keyed_graph())


def jobs_in(directory: Path) -> list[Path]:
    return list(directory.glob("flinknet-jobs-*"))


async def test_the_next_start_removes_the_files_of_a_killed_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are the journals of its jobs, in a directory of a dead process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = LockedDirectory("flinknet-jobs-", tmp_path)
    os.close(killed._lock)  # as the kernel does
    lives = LockedDirectory("flinknet-jobs-", tmp_path)
    config = FlinknetConfig(cluster=ClusterConfig(workers=1, start_timeout_ms=1.0))
    with pytest.raises(JobError, match="within 1 ms"):
        await Cluster(config, LocalLauncher).__aenter__()
    assert not killed.path.exists()
    assert jobs_in(tmp_path) == [lives.path], "nor anything of its own"
    lives.close()


async def test_a_process_that_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    with pytest.raises(
        JobError, match="coordinator cannot be started: .*no/python: .*No such file"
    ):
        await Cluster(FlinknetConfig(), LocalLauncher).__aenter__()


async def test_a_stop_that_is_cancelled_hurries_and_ends() -> None:
    hurried = asyncio.Event()
    stopping = asyncio.create_task(finish_stopping(_wait_for(hurried), hurried.set))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert hurried.is_set()
    await finish_stopping(_wait_for(hurried), hurried.clear)
    assert hurried.is_set()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()

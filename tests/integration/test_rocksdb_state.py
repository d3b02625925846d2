"""Jobs whose state is in RocksDB: killed, and continued with it on the heap and the other way."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, LocalCluster
from flinknet.config import FlinknetConfig, StateConfig
from flinknet.config.state import StateBackendName
from flinknet.errors import JobFailedError
from tests.integration.test_recovery import EXPECTED as HELD_EXPECTED
from tests.integration.test_recovery import complete
from tests.integration.test_recovery import sums as held_sums
from tests.integration.test_savepoints import EXPECTED, Running, config_of, quiet, sums


def with_state_in(directory: Path) -> FlinknetConfig:
    """Next to nothing is in memory, so that entries come and go all the time."""
    state = StateConfig(rocksdb_directory=str(directory / "state"), rocksdb_cached_entries_max=10)
    return replace(config_of(directory / "checkpoints"), state=state)


@pytest.mark.parametrize("backends", [("rocksdb", "hashmap"), ("hashmap", "rocksdb")])
async def test_a_job_continues_with_another_backend(
    tmp_path: Path, backends: tuple[StateBackendName, StateBackendName]
) -> None:
    """From a savepoint, at another parallelism; at the end no file of either is left."""
    before, after = (
        replace(sums(count), state_backend=name)
        for count, name in zip((2, 3), backends, strict=True)
    )
    async with LocalCluster(with_state_in(tmp_path), on_output=quiet) as cluster:
        job = Running(cluster, before)
        location = await cluster.stop(await job.underway(), str(tmp_path / "saved"))
        assert (await job.result).state == "FINISHED"
        again = await cluster.execute(after, from_checkpoint=location)
        assert sorted(again.collected["sums"]) == EXPECTED
        assert all(not [*one.glob("job*")] for one in (tmp_path / "state").iterdir())
    assert list((tmp_path / "state").iterdir()) == []


async def test_a_killed_worker_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    config = with_state_in(tmp_path)
    async with LocalCluster(config, on_output=quiet) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            if not started.done():
                started.set_result(progress.job_id)

        graph = replace(held_sums(tmp_path / "go"), state_backend="rocksdb")
        job = asyncio.create_task(cluster.execute(graph, watch))
        storage = FileStorage(tmp_path / "checkpoints", config.checkpointing)
        store = CheckpointStore(storage, await started, config.checkpointing)
        await complete(store, 0, job)
        directories = set((tmp_path / "state").iterdir())
        assert len(directories) == 2, "one of each worker"
        os.kill(cluster.pids()["worker-0"], signal.SIGKILL)
        while len(directories & set((tmp_path / "state").iterdir())) == 2:
            await asyncio.sleep(0)  # until the worker in its place has begun
        (tmp_path / "go").touch()
        assert sorted((await job).collected["sums"]) == HELD_EXPECTED
    assert list((tmp_path / "state").iterdir()) == []


async def test_a_place_that_is_none_fails_the_job_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory")
    async with LocalCluster(with_state_in(tmp_path), on_output=quiet) as cluster:
        graph = replace(sums(checkpointed=False), state_backend="rocksdb")
        with pytest.raises(JobFailedError, match=r"no place for the state .* in .*/state"):
            await cluster.execute(graph)

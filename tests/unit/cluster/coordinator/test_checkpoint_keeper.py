"""Checkpoints of real jobs, completed where they are kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.checkpoint_keeper import CheckpointKeeper
from flinknet.cluster.coordinator.job_record import JobRecord
from flinknet.config import CheckpointingConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import ConfigurationError
from tests.unit.cluster.graphs import endless_graph
from tests.unit.cluster.running_cluster import Cluster, running_cluster


def submit(cluster: Cluster, directory: Path) -> JobRecord:
    settings = JobCheckpointingConfig(10.0, tolerable_failures=1, directory=str(directory))
    graph = replace(endless_graph(), checkpointing=settings)
    return cluster.served.coordinator.submit(Submission.of_graph(graph))


def books(record: JobRecord) -> tuple[int, int]:
    """How many checkpoints are complete, and how many have failed."""
    assert record.checkpoints is not None
    return record.checkpoints.history.completed, record.checkpoints.history.failed


async def test_checkpoints_of_a_job_are_complete_one_after_the_other(tmp_path: Path) -> None:
    async with running_cluster() as cluster:
        record = submit(cluster, tmp_path)
        while books(record)[0] < 3:
            await asyncio.sleep(0)
        cluster.served.coordinator.cancel(record)
        await cluster.served.coordinator.wait_for_end(record, 60.0)
        await cluster.served.coordinator.finish_checkpoints()
    config = CheckpointingConfig()
    store = CheckpointStore(FileStorage(tmp_path, config), record.job_id, config)
    metadata, refused = await store.latest_valid()
    assert refused == []
    assert (metadata.job, metadata.attempt) == ("endless", 0)
    assert [operator.parallelism for operator in metadata.operators] == [2] * 3
    assert metadata.size_bytes > 0, "the positions of the sources"


async def test_a_place_that_fails_fails_the_job_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    async with running_cluster() as cluster:
        record = submit(cluster, tmp_path / "file")
        await cluster.served.coordinator.wait_for_end(record, 60.0)
        await cluster.served.coordinator.finish_checkpoints()
        assert books(record) == (0, 2)
        assert record.execution.cause is not None
        assert "2 checkpoints failed in a row" in record.execution.cause.message


async def test_a_job_needs_a_place() -> None:
    keeper = CheckpointKeeper(CheckpointingConfig(), lambda *kept: None)
    with pytest.raises(ConfigurationError, match="checkpointing.directory"):
        keeper.check("")
    keeper.check("/anywhere")
    CheckpointKeeper(CheckpointingConfig(directory="/somewhere"), lambda *kept: None).check("")
    keeper.forget("no such job")
    await keeper.close()

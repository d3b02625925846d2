"""Checkpoints of real jobs, completed where they are kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.checkpoint.claimed_store import ClaimedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import OperatorState, StateKind, SubtaskState
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.checkpoint_keeper import CheckpointKeeper
from flinknet.cluster.coordinator.job_record import JobRecord
from flinknet.cluster.coordinator.restore_point import RestorePoint
from flinknet.config import CheckpointingConfig, ClusterConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import CheckpointStorageError, ConfigurationError
from tests.unit.checkpoint.checkpoints import change, metadata
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
    found, refused = await store.latest_valid()
    assert refused == []
    assert (found.job, found.attempt) == ("endless", 0)
    assert [operator.parallelism for operator in found.operators] == [2] * 3
    assert found.size_bytes > 0, "the positions of the sources"


async def test_a_place_that_fails_fails_the_job_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    async with running_cluster() as cluster:
        record = submit(cluster, tmp_path / "file")
        await cluster.served.coordinator.wait_for_end(record, 60.0)
        await cluster.served.coordinator.finish_checkpoints()
        assert books(record) == (0, 2)
        assert record.execution.cause is not None
        assert "2 checkpoints failed in a row" in record.execution.cause.message


def ignore(*answer: object) -> None:
    """Nobody waits for it."""


async def sought(directory: Path) -> RestorePoint | str | None:
    """What a keeper says of the checkpoints of the graph's job."""
    settings = JobCheckpointingConfig(10.0, directory=str(directory))
    graph = replace(endless_graph(), checkpointing=settings)
    record = JobRecord("job-1", Submission.of_graph(graph), ClusterConfig(), submitted_at=0.0)
    answers: list[RestorePoint | str | None] = []
    keeper = CheckpointKeeper(
        CheckpointingConfig(),
        ignore,
        lambda record, found, failure: answers.append(failure or found),
    )
    keeper.seek(record)
    await keeper.close()
    (answer,) = answers
    return answer


async def checkpoints_of_the_graph(directory: Path) -> list[Path]:
    """Make two checkpoints; in the second one a subtask had finished in a chain. Return them."""
    config = CheckpointingConfig(inline_bytes_max=0)
    store = CheckpointStore(FileStorage(directory, config), "job-1", config)
    claimed = await ClaimedStore.claim(store, 0)
    vertex = next(one for one in endless_graph().vertices if len(one.operators) > 1)
    for number in (1, 2):
        part = await store.write_part(claimed.directory(number), "state", [("x", b"the content")])
        assert part is not None
        subtasks = (
            SubtaskState(0, {}, finished=number == 2),
            SubtaskState(1, {StateKind.OPERATOR: part}),
        )
        one, *others = vertex.operators
        operators = [OperatorState(one.uid, 2, vertex.max_parallelism, subtasks)]
        operators += [
            OperatorState(other.uid, 2, vertex.max_parallelism, subtasks[:1]) for other in others
        ]
        await claimed.complete(metadata(number, 0, tuple(operators)))
    return [directory / "job-1" / f"checkpoint-{number}-attempt-0" for number in (1, 2)]


async def test_an_attempt_continues_from_the_last_checkpoint(tmp_path: Path) -> None:
    await checkpoints_of_the_graph(tmp_path)
    vertex = next(one for one in endless_graph().vertices if len(one.operators) > 1)
    assert await sought(tmp_path) == RestorePoint(
        "checkpoint-2-attempt-0", frozenset({(vertex.id, 0)})
    )


@pytest.mark.parametrize("how", ["removed", "torn", "a bit", "foreign", "newer"])
@pytest.mark.parametrize("file", ["metadata", "state"])
async def test_one_that_is_damaged_is_passed_over(
    tmp_path: Path, file: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await checkpoints_of_the_graph(tmp_path)
    change(second / file, how)
    assert await sought(tmp_path) == ("checkpoint-1-attempt-0", frozenset())
    if (file, how) != ("metadata", "removed"):
        assert str(second / file) in caplog.text
    change(first / file, how)
    assert await sought(tmp_path) == RestorePoint()
    assert 'job "endless" begins again from its start' in caplog.text


async def test_a_place_that_does_not_answer_is_no_reason_to_go_further_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second = await checkpoints_of_the_graph(tmp_path)

    async def fails(storage: FileStorage, path: str, start: int, length: int) -> bytes:
        raise CheckpointStorageError(f"cannot read {path}: time-out")

    monkeypatch.setattr(FileStorage, "read_range", fails)
    answer = await sought(tmp_path)
    assert isinstance(answer, str)
    assert answer.startswith("could not read which checkpoint the job continues from: ")
    assert f"{second.name}/state: time-out" in answer


async def test_a_job_needs_a_place() -> None:
    keeper = CheckpointKeeper(CheckpointingConfig(), ignore, ignore)
    with pytest.raises(ConfigurationError, match="checkpointing.directory"):
        keeper.check("")
    keeper.check("/anywhere")
    CheckpointKeeper(CheckpointingConfig(directory="/somewhere"), ignore, ignore).check("")
    keeper.forget("no such job")
    await keeper.close()

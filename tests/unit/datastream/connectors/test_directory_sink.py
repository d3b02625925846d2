"""A file sink in a subtask: its files, and when they become visible, locally and in a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from flinknet.datastream import CommitContext, FileSink, TextFileSink, TextFileSource
from flinknet.datastream.connectors.encoders import TextEncoder
from flinknet.datastream.connectors.rolling_policies import RollingPolicy
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.operators.sink import SinkOperator
from flinknet.state.state_handler import StateHandler
from tests.unit.operators.harness import Harness, context


@pytest.fixture(params=["path", "local://", "memory://"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield f"{tmp_path}/out" if request.param == "path" else f"{request.param}{tmp_path}/out"
    fsspec.filesystem("memory").store.clear()


def sink(place: str, index: int = 0, job_id: str = "job1", **fields: Any) -> Harness:
    made = context(index=index, parallelism=2, job_id=job_id, **fields)
    return Harness(SinkOperator(TextFileSink(place)), made)


def checkpointed(place: str, rolls: int = 1 << 30, **fields: Any) -> Harness:
    state = StateHandler(
        operator="tested",
        uid="tested",
        index=0,
        parallelism=1,
        max_parallelism=128,
        types=None,
        now_ms=lambda: 0,
    )
    made = context(**{"checkpointed": True, "state": state, "job_id": "job1", **fields})
    policy = RollingPolicy.default_rolling_policy(part_size=rolls)
    encoder = TextEncoder()
    return Harness(
        SinkOperator(FileSink(place, encoder, suffix=".txt", rolling_policy=policy)), made
    )


def taken(harness: Harness, checkpoint_id: int) -> bytes:
    """Take a checkpoint, and return the operator's state in it."""
    harness.operator.prepare_snapshot(checkpoint_id)
    snapshot = harness.context.state.snapshot(checkpoint_id, 0)
    for _ in snapshot.slices():
        pass
    return b"".join(map(bytes, snapshot.operator_pieces()))


def seen(place: str) -> list[str]:
    try:
        source = TextFileSource(place)
    except ConfigurationError:
        return []
    return [record for batch in source.read_share(context()) for record in batch]


def files(place: str) -> list[str]:
    filesystem, path = fsspec.core.url_to_fs(place)
    names = filesystem.ls(path, detail=False) if filesystem.exists(path) else []
    return sorted(name.rpartition("/")[2] for name in names)


def commit(place: str, job_id: str, *harnesses: Harness) -> None:
    committables = [one for harness in harnesses for one in harness.context.committables]
    TextFileSink(place).create_committer(CommitContext("tested", job_id, 0)).commit(committables)


async def test_all_subtasks_are_seen_at_once_in_the_place_of_the_job_before(place: str) -> None:
    for job_id, expected in (("job1", ["0 of job1", "1 of job1"]), ("job2", ["0 of job2"])):
        before, ended = seen(place), []
        for index in range(2):
            async with sink(place, index, job_id) as harness:
                if f"{index} of {job_id}" in expected:
                    await harness.process(f"{index} of {job_id}")
                await harness.end_of_input()
                ended.append(harness)
        assert seen(place) == before
        commit(place, job_id, *ended)
        assert seen(place) == expected


async def test_a_subtask_that_fails_leaves_nothing(place: str) -> None:
    async with sink(place) as harness:
        await harness.process("a")
        written = harness.operator.sink.begin_file()  # type: ignore[attr-defined]
        assert written.exists()
    assert not written.exists()
    committer = TextFileSink(place).create_committer(CommitContext("tested", "job1", 0))
    committer.abort()
    assert (seen(place), harness.context.committables) == ([], [])


async def test_with_checkpoints_each_is_seen_when_it_is_complete(place: str) -> None:
    """Records behind the last complete checkpoint are lost with the attempt."""
    async with checkpointed(place) as harness:
        await harness.process("a", "b")
        taken(harness, 1)
        await harness.operator.persist()
        assert seen(place) == []
        await harness.process("c")
        await harness.operator.notify_checkpoint_complete(1)
        assert seen(place) == ["a", "b"]
        state = taken(harness, 2)
        await harness.operator.persist()
        await harness.process("d")
        taken(harness, 3)
        await harness.operator.persist()
        await harness.process("e")
    again = checkpointed(place, attempt=1)
    list(again.context.state.restore(2, [b""], [state], "job1"))
    async with again:
        assert seen(place) == ["a", "b", "c"]
        await again.process("d")
        await again.end_of_input()
        assert again.operator.awaits_checkpoint()
        taken(again, 4)
        await again.operator.persist()
        await again.operator.notify_checkpoint_complete(4)
    context_of_commit = CommitContext("tested", "job1", 1, checkpointed=True)
    committer = TextFileSink(place).create_committer(context_of_commit)
    committer.commit([])
    committer.abort()
    assert seen(place) == ["a", "b", "c", "d"]
    assert [name for name in files(place) if name.startswith(".")] == []


async def test_files_published_with_a_later_checkpoint_are_withdrawn(place: str) -> None:
    """The job goes back to an older checkpoint.

    Its records are written again, and are visible once.
    """
    states = {}
    async with checkpointed(place) as harness:
        for number, record in enumerate("abc", 1):
            await harness.process(record)
            states[number] = taken(harness, number)
            await harness.operator.persist()
            await harness.operator.notify_checkpoint_complete(number)
    assert seen(place) == ["a", "b", "c"]
    again = checkpointed(place, attempt=1)
    list(again.context.state.restore(1, [b""], [states[1]], "job1"))
    async with again:
        assert seen(place) == ["a"]
        await again.process("b, again")
        taken(again, 4)
        await again.operator.persist()
        await again.operator.notify_checkpoint_complete(4)
    assert seen(place) == ["a", "b, again"]
    lost = checkpointed(place, attempt=2)
    list(lost.context.state.restore(3, [b""], [states[3]], "job1"))
    with pytest.raises(JobFailedError, match="is missing|was removed"):
        async with lost:
            pass


@pytest.mark.parametrize("may_repeat", [False, True])
async def test_another_job_leaves_later_files_alone_and_is_refused(
    place: str, may_repeat: bool
) -> None:
    state = b""
    async with checkpointed(place) as harness:
        for number, record in enumerate("ab", 1):
            await harness.process(record)
            state = taken(harness, number)
            await harness.operator.persist()
            await harness.operator.notify_checkpoint_complete(number)
    for checkpoint_id in (2, 1):
        other = checkpointed(place, attempt=3, job_id="job2", allows_repeated_output=may_repeat)
        list(other.context.state.restore(checkpoint_id, [b""], [state], "job1"))
        if checkpoint_id == 2 or may_repeat:
            async with other:
                assert seen(place) == ["a", "b"]
        else:
            with pytest.raises(ConfigurationError, match="job1 has committed with checkpoints aft"):
                async with other:
                    pass
    assert seen(place) == ["a", "b"]


async def test_a_subtask_may_write_several_files_for_a_checkpoint(place: str) -> None:
    async with checkpointed(place, rolls=4) as harness:
        for record in ("a", "b", "c", "d", "e"):
            await harness.process(record)
        taken(harness, 1)
        await harness.operator.persist()
        await harness.operator.notify_checkpoint_complete(1)
        assert seen(place) == ["a", "b", "c", "d", "e"]
        assert files(place) == [f"part-00000-of-00001-job1-0-{number}-1.txt" for number in range(3)]


async def test_an_unwritable_directory_names_the_operator(place: str, tmp_path: Path) -> None:
    filesystem, path = fsspec.core.url_to_fs(place)
    filesystem.makedirs(path)
    filesystem.pipe_file(f"{path}/notes.txt", b"mine")
    for other in (sink(place), checkpointed(place)):
        with pytest.raises(ConfigurationError, match=r'sink "tested": .*out holds notes.txt'):
            await other.operator.open(other.context)
        await other.operator.close()


async def test_a_record_that_cannot_be_written_fails_the_job(tmp_path: Path) -> None:
    made = FileSink(str(tmp_path / "out"), TextEncoder("ascii"))
    async with Harness(SinkOperator(made), context()) as harness:
        with pytest.raises(JobFailedError, match="UnicodeEncodeError"):
            await harness.process("é")


def test_two_sinks_of_one_directory_are_known_to_be(tmp_path: Path) -> None:
    one, other = TextFileSink(tmp_path / "a" / ".." / "out"), TextFileSink(f"{tmp_path}/out")
    assert one.exclusive_output() == other.exclusive_output() == str(tmp_path / "out")
    assert TextFileSink("memory://out/").exclusive_output() == "memory://out"

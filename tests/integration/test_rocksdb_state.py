"""Jobs with state in RocksDB: killed, and continued with another state backend."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, LocalCluster
from flinknet.config import FlinknetConfig, StateConfig
from flinknet.config.state import StateBackendName
from flinknet.datastream import (
    EmbeddedRocksDBStateBackend,
    GeneratorSource,
    KeyedProcessFunction,
    ProcessContext,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flinknet.errors import JobFailedError
from tests.integration.cluster_runs import LOOK_S
from tests.integration.test_recovery import EXPECTED as HELD_EXPECTED
from tests.integration.test_recovery import complete
from tests.integration.test_recovery import sums as held_sums
from tests.integration.test_savepoints import EXPECTED, Running, config_of, quiet, sums


def with_state_in(directory: Path) -> FlinknetConfig:
    """Return a configuration with a tiny cache, so that entries are evicted all the time."""
    state = StateConfig(rocksdb_directory=str(directory / "state"), rocksdb_cached_entries_max=10)
    return replace(config_of(directory / "checkpoints"), state=state)


@pytest.mark.parametrize("backends", [("rocksdb", "hashmap"), ("hashmap", "rocksdb")])
async def test_a_job_continues_with_another_backend(
    tmp_path: Path, backends: tuple[StateBackendName, StateBackendName]
) -> None:
    """The job continues from a savepoint at another parallelism, and leaves no file of either."""
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
            await asyncio.sleep(LOOK_S)  # wait until the replacement worker has begun
        (tmp_path / "go").touch()
        assert sorted((await job).collected["sums"]) == HELD_EXPECTED
    assert list((tmp_path / "state").iterdir()) == []


class OutOfRoom(KeyedProcessFunction):
    """A function that keeps a text of each key, with a limit on the size of files."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.text = runtime_context.get_state(ValueStateDescriptor("text"))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))

    def process_element(self, value: int, ctx: ProcessContext) -> Iterator[int]:
        if self.text.value() is None:
            self.text.update(str(value) * 100)
        yield value


async def test_a_full_disk_fails_the_job_and_the_error_names_its_use(tmp_path: Path) -> None:
    """The error names operator, state and directory, and no file is left."""
    config = with_state_in(tmp_path)
    small = replace(config.state, rocksdb_write_buffer_bytes=65536)
    async with LocalCluster(replace(config, state=small), on_output=quiet) as cluster:
        environment = StreamExecutionEnvironment()
        environment.set_state_backend(EmbeddedRocksDBStateBackend())
        numbers = environment.from_source(GeneratorSource(lambda number: number, 1_000_000))
        kept = numbers.key_by(lambda number: number).process(OutOfRoom()).name("Keep")
        kept.sink_to(lambda record: None)
        message = (
            rf'state "text" of operator "Keep" .* cannot be written in the RocksDB database in '
            rf"{tmp_path}/state/.*: .*File too large.*rocksdb_directory"
        )
        with pytest.raises(JobFailedError, match=message):
            await cluster.execute(environment.job_graph("full"))
    assert list((tmp_path / "state").iterdir()) == []


async def test_an_unusable_directory_fails_the_job_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory")
    async with LocalCluster(with_state_in(tmp_path), on_output=quiet) as cluster:
        graph = replace(sums(checkpointed=False), state_backend="rocksdb")
        with pytest.raises(JobFailedError, match=r"jobs cannot be kept in .*/state"):
            await cluster.execute(graph)

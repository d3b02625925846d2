"""A job whose sink is too slow for good, its checkpoints, and how long each took.

A source counts without end, a keyed function numbers the records of each key, and a sink takes its
time for every record and checks the numbers; two workers, so that half of all records cross over
on each of both edges. Every buffer is full soon, and stays so. The checkpoints say of themselves
when they were triggered and complete; what was in flight is among their state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from bench.errors import BenchError
from flinknet import FlinknetConfig, NetworkConfig
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import CheckpointMetadata, StateKind
from flinknet.checkpoint.store import CheckpointStore, CompletedCheckpoint
from flinknet.cluster import JobProgress, JobResult, LocalCluster
from flinknet.config import BufferDebloatConfig, CheckpointingConfig
from flinknet.datastream import (
    GeneratorSource,
    KeyedProcessFunction,
    ProcessContext,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flinknet.errors import FlinknetError
from flinknet.task.graph import JobGraph

__all__ = ["SINK_RECORD_S", "VARIANTS", "Checkpoint", "Outcome", "Setting", "run_job"]

SINK_RECORD_S = 200e-6
"""How long the sink takes for a record."""

RECORD_BYTES = 200
KEYS = 1_000
INTERVAL_MS = 200.0
PARALLELISM = 2

SETTLE_S = 2.0
"""After the first checkpoint; every queue is full long before."""

LOOK_S = 0.05
RUN_S_MAX = 120.0
"""After which a run has failed."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How barriers travel."""

    network: NetworkConfig
    alignment: Literal["aligned", "unaligned", "alternating"] = "aligned"
    aligned_timeout_ms: float = 0.0


VARIANTS = {
    "aligned": Setting(NetworkConfig()),
    "aligned, debloat": Setting(
        NetworkConfig(debloat=BufferDebloatConfig(enabled=True, target_ms=100.0))
    ),
    "aligned, credit off": Setting(NetworkConfig(flow_control="off")),
    "alternating, 100 ms": Setting(NetworkConfig(), "alternating", 100.0),
    "unaligned": Setting(NetworkConfig(), "unaligned"),
}


class Checkpoint(NamedTuple):
    """What one checkpoint took, in milliseconds, and the bytes in flight that it stores."""

    duration_ms: int
    in_flight_bytes: int


class Outcome(NamedTuple):
    """The checkpoints of a run, and what the sinks took per second meanwhile."""

    checkpoints: list[Checkpoint]
    records_per_s: float


class Numbered(KeyedProcessFunction):
    """Gives the records of each key their numbers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Find the state."""
        self._next = runtime_context.get_state(ValueStateDescriptor("next"))

    def process_element(
        self, value: tuple[int, bytes], ctx: ProcessContext
    ) -> Iterable[tuple[int, int, bytes]]:
        """Number one record."""
        number = self._next.value() or 0
        self._next.update(number + 1)
        yield value[0], number, value[1]


class SlowSink(SinkFunction):
    """Takes its time, and fails if a record is missing, or comes again."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Begin with nothing."""
        self._numbers: dict[int, int] = {}

    def invoke(self, value: tuple[int, int, bytes]) -> None:
        """Take one record."""
        key, number, _ = value
        if self._numbers.setdefault(key, 0) != number:
            raise BenchError(f"record {number} of key {key} instead of {self._numbers[key]}")
        self._numbers[key] = number + 1
        time.sleep(SINK_RECORD_S)


def record(number: int) -> tuple[int, bytes]:
    """Return a record: a key and a payload."""
    return number % KEYS, b"x" * RECORD_BYTES


def key_of(record: Sequence[int]) -> int:
    """Return a record's key."""
    return record[0]


def run_job(setting: Setting, checkpoints: int) -> Outcome:
    """Run the job until it has taken so many checkpoints under backpressure.

    Raises BenchError if it fails, or they are not complete after ``RUN_S_MAX`` seconds.
    """
    with TemporaryDirectory(prefix="flinknet-bench-") as directory:
        return asyncio.run(_run(setting, checkpoints, Path(directory)))


def _graph(setting: Setting) -> JobGraph:
    environment = StreamExecutionEnvironment().set_parallelism(PARALLELISM)
    environment.enable_checkpointing(INTERVAL_MS)
    config = environment.get_checkpoint_config()
    if setting.alignment != "aligned":
        config.enable_unaligned_checkpoints()
        config.set_aligned_checkpoint_timeout(setting.aligned_timeout_ms)
    numbered = (
        environment.from_source(GeneratorSource(record), name="source")
        .key_by(key_of)
        .process(Numbered())
        .name("numbered")
    )
    numbered.key_by(key_of).sink_to(SlowSink()).name("sink")
    return environment.job_graph("barriers")


async def _run(setting: Setting, checkpoints: int, directory: Path) -> Outcome:
    config = FlinknetConfig(
        network=setting.network,
        checkpointing=CheckpointingConfig(directory=str(directory), retained=1_000),
    )
    try:
        async with (
            asyncio.timeout(RUN_S_MAX),
            LocalCluster(config, on_output=lambda process, line: None) as cluster,
        ):
            watched = _Watched(config)
            job = asyncio.create_task(cluster.execute(_graph(setting), watched.see))
            try:
                return await watched.checkpoints(checkpoints, job)
            finally:
                job.cancel()
                await asyncio.gather(job, return_exceptions=True)
    except TimeoutError:
        raise BenchError(f"{checkpoints} checkpoints took over {RUN_S_MAX:.0f} s") from None
    except FlinknetError as error:
        raise BenchError(f"the job failed: {error}") from error


class _Watched:
    """A job's checkpoints, as they are completed in its store."""

    def __init__(self, config: FlinknetConfig) -> None:
        self._config = config.checkpointing
        self._progress: JobProgress | None = None

    def see(self, progress: JobProgress) -> None:
        """The job's client tells how it stands."""
        self._progress = progress

    async def checkpoints(self, wanted: int, job: asyncio.Task[JobResult]) -> Outcome:
        """Return so many that were triggered when all was full; raises what the job fails with."""
        await self._look(job, lambda: self._progress is not None)
        assert self._progress is not None
        storage = FileStorage(Path(self._config.directory), self._config)
        store = CheckpointStore(storage, self._progress.job_id, self._config)
        await self._completed(store, 1, job)
        await asyncio.sleep(SETTLE_S)
        # The one under way when this begins may have been triggered too early.
        before = len(await store.completed()) + 1
        taken, begun = self._taken, time.monotonic()
        completed = await self._completed(store, before + wanted, job)
        records_per_s = (self._taken - taken) / (time.monotonic() - begun)
        metadata = [await store.read_metadata(each.directory) for each in completed[before:]]
        return Outcome([*map(_checkpoint, metadata)], records_per_s)

    @property
    def _taken(self) -> int:
        assert self._progress is not None
        return self._progress.vertices[-1].records_in

    async def _completed(
        self, store: CheckpointStore, count: int, job: asyncio.Task[JobResult]
    ) -> list[CompletedCheckpoint]:
        while len(completed := await store.completed()) < count:
            await self._look(job, lambda: True)
        return completed

    async def _look(self, job: asyncio.Task[JobResult], there: Callable[[], bool]) -> None:
        while True:
            await asyncio.wait([job], timeout=LOOK_S)
            if job.done():
                job.result()
                raise BenchError("the job has ended by itself")
            if there():
                return


def _checkpoint(metadata: CheckpointMetadata) -> Checkpoint:
    in_flight = (StateKind.INPUT, StateKind.OUTPUT)
    stored = sum(part.size_bytes for *_, kind, part in metadata.parts() if kind in in_flight)
    return Checkpoint(metadata.duration_ms, stored)

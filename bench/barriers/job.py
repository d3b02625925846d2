"""A job with a permanently slow sink, its checkpoints, and the duration of each.

A source counts without end, a keyed function numbers the records of each key, and a sink takes its
time for every record and checks the numbers. There are two workers, so half of all records cross
between them on each of both edges. Every buffer is full soon and stays full. The coordinator tells
of each checkpoint its duration, the arrival of its barriers and the in-flight bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import aiohttp

from bench.errors import BenchError
from flinknet import FlinknetConfig, NetworkConfig
from flinknet.cluster import JobProgress, JobResult, LocalCluster
from flinknet.cluster.control.credentials import authorization_headers
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
from flinknet.graph.graph import JobGraph

__all__ = ["SINK_RECORD_S", "VARIANTS", "Checkpoint", "Outcome", "Setting", "run_job"]

SINK_RECORD_S = 200e-6
"""Seconds that the sink takes for a record."""

KEYS = 1_000
INTERVAL_MS = 200.0
PARALLELISM = 2

SETTLE_S = 2.0
"""Seconds to settle after the first checkpoint; every queue is full long before."""

LOOK_S = 0.05
RUN_S_MAX = 120.0
"""Seconds after which a run has failed."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The alignment and the network settings that determine how barriers travel."""

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
    """The durations and the in-flight bytes of one checkpoint."""

    duration_ms: int
    """Time from its trigger to its completion."""
    barriers_ms: int
    """Time from its trigger to the arrival of the last barrier at any subtask.

    It is the longest delay of a first barrier plus the longest alignment, even if these are of two
    subtasks.
    """
    in_flight_bytes: int
    """Bytes of queues that it stores."""


class Outcome(NamedTuple):
    """The checkpoints of a run, and the rate of the sinks meanwhile."""

    checkpoints: list[Checkpoint]
    records_per_s: float


class Numbered(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        self._next = runtime_context.get_state(ValueStateDescriptor("next"))

    def process_element(
        self, value: tuple[int, bytes], ctx: ProcessContext
    ) -> Iterable[tuple[int, int, bytes]]:
        """Number one record."""
        number = self._next.value() or 0
        self._next.update(number + 1)
        yield value[0], number, value[1]


class SlowSink(SinkFunction):
    """Takes its time, and fails if a record is missing or repeated."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Initialize the expected numbers."""
        self._numbers: dict[int, int] = {}

    def invoke(self, value: tuple[int, int, bytes]) -> None:
        """Check one record."""
        key, number, _ = value
        if self._numbers.setdefault(key, 0) != number:
            raise BenchError(f"record {number} of key {key} instead of {self._numbers[key]}")
        self._numbers[key] = number + 1
        time.sleep(SINK_RECORD_S)


def record(payload: bytes, number: int) -> tuple[int, bytes]:
    """Return a record: a key and the payload."""
    return number % KEYS, payload


def key_of(record: Sequence[Any]) -> int:
    """Return a record's key."""
    key: int = record[0]
    return key


def run_job(setting: Setting, record_bytes: int, checkpoints: int) -> Outcome:
    """Run the job until it has taken ``checkpoints`` checkpoints under backpressure.

    ``record_bytes`` is the payload of a record. Raises BenchError if the job fails, or if the
    checkpoints are not complete after ``RUN_S_MAX`` seconds.
    """
    with TemporaryDirectory(prefix="flinknet-bench-") as directory:
        return asyncio.run(_run(setting, record_bytes, checkpoints, directory))


def _graph(setting: Setting, record_bytes: int) -> JobGraph:
    environment = StreamExecutionEnvironment().set_parallelism(PARALLELISM)
    environment.enable_checkpointing(INTERVAL_MS)
    config = environment.get_checkpoint_config()
    if setting.alignment != "aligned":
        config.enable_unaligned_checkpoints()
        config.set_aligned_checkpoint_timeout(setting.aligned_timeout_ms)
    records = GeneratorSource(partial(record, b"x" * record_bytes))
    numbered = (
        environment.from_source(records, name="source")
        .key_by(key_of)
        .process(Numbered())
        .name("numbered")
    )
    numbered.key_by(key_of).sink_to(SlowSink()).name("sink")
    return environment.job_graph("barriers")


async def _run(setting: Setting, record_bytes: int, checkpoints: int, directory: str) -> Outcome:
    config = FlinknetConfig(
        network=setting.network,
        checkpointing=CheckpointingConfig(directory=directory),
    )
    try:
        async with (
            asyncio.timeout(RUN_S_MAX),
            LocalCluster(config, on_output=lambda process, line: None) as cluster,
        ):
            watched = _Watched(cluster)
            graph = _graph(setting, record_bytes)
            job = asyncio.create_task(cluster.execute(graph, watched.see))
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
    """The checkpoints of a job as the coordinator reports them."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._progress: JobProgress | None = None

    def see(self, progress: JobProgress) -> None:
        """Receive the job's progress from its client."""
        self._progress = progress

    async def checkpoints(self, wanted: int, job: asyncio.Task[JobResult]) -> Outcome:
        """Return checkpoints that were triggered when all queues were full.

        Raises the error of the job if it fails.
        """
        while self._progress is None:
            await self._look(job)
        await self._completed(1, 0, job)
        await asyncio.sleep(SETTLE_S)
        # A checkpoint in progress at this point may have been triggered too early.
        before = max(await self._rows()) + 1
        taken, begun = self._taken, time.monotonic()
        rows = await self._completed(wanted, before, job)
        records_per_s = (self._taken - taken) / (time.monotonic() - begun)
        return Outcome([*map(_checkpoint, rows)], records_per_s)

    @property
    def _taken(self) -> int:
        assert self._progress is not None
        return self._progress.vertices[-1].records_in

    async def _completed(
        self, count: int, before: int, job: asyncio.Task[JobResult]
    ) -> list[dict[str, Any]]:
        """Return ``count`` complete checkpoints after the one numbered ``before``.

        Polls and collects them, because the coordinator forgets them soon.
        """
        seen: dict[int, dict[str, Any]] = {}
        while True:
            rows = await self._rows()
            seen |= {number: row for number, row in rows.items() if _is_complete(row, before)}
            if len(seen) >= count:
                return [seen[number] for number in sorted(seen)[:count]]
            await self._look(job)

    async def _rows(self) -> dict[int, dict[str, Any]]:
        """Return Flink's history of checkpoints, by number."""
        assert self._progress is not None
        headers = authorization_headers(self._cluster.token)
        url = f"http://{self._cluster.address}/v1/jobs/{self._progress.job_id}/checkpoints"
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
            return {row["id"]: row for row in (await answer.json())["history"]}

    async def _look(self, job: asyncio.Task[JobResult]) -> None:
        await asyncio.wait([job], timeout=LOOK_S)
        if job.done():
            job.result()
            raise BenchError("the job has ended by itself")


def _is_complete(row: dict[str, Any], before: int) -> bool:
    return row["status"] == "COMPLETED" and bool(row["id"] > before)


def _checkpoint(row: dict[str, Any]) -> Checkpoint:
    barriers_ms = round(row["start_delay"] + row["alignment"])
    return Checkpoint(row["end_to_end_duration"], barriers_ms, row["persisted_data"])

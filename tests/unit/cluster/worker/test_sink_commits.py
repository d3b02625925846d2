"""Two-phase sinks of real jobs: all of their output is visible in the end, or none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.control.submission import Submission
from flinknet.datastream import (
    CommitContext,
    Committer,
    GeneratorSource,
    RuntimeContext,
    StreamExecutionEnvironment,
    TwoPhaseSink,
)
from flinknet.datastream.connectors.output_directory import OutputDirectory
from flinknet.errors import JobCancelledError, JobFailedError
from flinknet.graph.graph import JobGraph
from tests.unit.cluster.running_cluster import Cluster, running_cluster

RECORDS = 1000


class LinesCommitter(Committer):
    """Commits files of lines, unless it is told to fail."""

    def __init__(self, output: OutputDirectory, fault: str) -> None:
        self._output = output
        self._fault = fault

    def commit(self, committables: list[str]) -> None:
        if self._fault == "commit":
            raise OSError("no space left")
        self._output.commit(committables)

    def abort(self) -> None:
        self._output.abort()


class LinesSink(TwoPhaseSink):
    """A user's own sink: a file of lines for each subtask."""

    def __init__(self, path: Path, fault: str = "") -> None:
        self._path = path
        self._fault = fault
        self._lines: list[str] = []

    def _output(self, job_id: str, attempt: int) -> OutputDirectory:
        return OutputDirectory(self._path, f"{job_id}-{attempt}")

    def open(self, runtime_context: RuntimeContext) -> None:
        output = self._output(runtime_context.job_id, runtime_context.attempt)
        output.open()
        self._index = runtime_context.index
        self._file = output.staging / f"part-{self._index:05d}-of-00002.parquet"

    def write(self, records: list[Any]) -> None:
        self._lines += map(str, records)

    def prepare_commit(self) -> str:
        if self._fault == "prepare" and self._index == 1:
            raise OSError("no space left")
        self._file.write_text("\n".join(self._lines))
        return self._file.name

    def create_committer(self, context: CommitContext) -> Committer:
        return LinesCommitter(self._output(context.job_id, context.attempt), self._fault)


def graph(
    sink: LinesSink, function: Callable[[int], int] = int, count: int | None = RECORDS
) -> JobGraph:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    numbers = environment.from_source(GeneratorSource(int, count)).rebalance()
    numbers.map(function).sink_to(sink).name("lines")
    return environment.job_graph("two phases")


def fail_late(number: int) -> int:
    if number == RECORDS - 1:
        raise ValueError("the last one")
    return number + 10_000


def numbers_in(path: Path) -> list[int]:
    files = path.glob("*.parquet")
    return sorted(int(line) for file in files for line in file.read_text().split())


def names_in(path: Path) -> list[str]:
    return [entry.name for entry in path.iterdir()]


def add_five(number: int) -> int:
    return number + 5


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as cluster:
        yield cluster


async def execute(cluster: Cluster, graph: JobGraph) -> None:
    client = cluster.served.client()
    await client.follow(await client.submit(Submission.of_graph(graph)), interval_ms=10_000)


async def test_the_output_of_all_subtasks_is_committed_when_the_job_has_finished(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    for offset, function in ((0, int), (5, add_five)):
        await execute(cluster, graph(LinesSink(path), function))
        assert numbers_in(path) == list(range(offset, RECORDS + offset))
        assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("fault", "function", "message"),
    [
        ("", fail_late, "ValueError: the last one"),
        ("prepare", int, r'"lines" \(2/2\) failed in finish\(\): OSError: no space'),
        ("commit", int, r'sink "lines" failed in commit\(\): OSError: no space left'),
    ],
    ids=["function", "prepare", "commit"],
)
async def test_a_failed_job_changes_nothing_and_leaves_nothing(
    cluster: Cluster, tmp_path: Path, fault: str, function: Callable[[int], int], message: str
) -> None:
    path = tmp_path / "out"
    await execute(cluster, graph(LinesSink(path)))
    with pytest.raises(JobFailedError, match=message):
        await execute(cluster, graph(LinesSink(path, fault), function))
    assert numbers_in(path) == list(range(RECORDS))
    assert names_in(tmp_path) == ["out"]


async def test_a_cancelled_job_changes_nothing_and_leaves_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    await execute(cluster, graph(LinesSink(path)))
    client = cluster.served.client()
    job_id = await client.submit(Submission.of_graph(graph(LinesSink(path), count=None)))
    while (await client.progress(job_id, wait_ms=1)).vertices[-1].records_in == 0:
        pass
    await client.cancel(job_id)
    with pytest.raises(JobCancelledError):
        await client.follow(job_id, interval_ms=10_000)
    assert numbers_in(path) == list(range(RECORDS))
    assert names_in(tmp_path) == ["out"]

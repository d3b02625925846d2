"""Where a job is executed: by an installed executor, not inside a running event loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.datastream import StreamExecutionEnvironment
from flinknet.datastream.executor import (
    embedded_config,
    execute,
    finish_started,
    set_executor,
)
from flinknet.errors import ConfigurationError
from flinknet.graph.graph import JobGraph


@pytest.fixture
def executed() -> Iterator[list[JobGraph]]:
    """The graphs that an installed executor was given."""
    graphs: list[JobGraph] = []

    def executor(graph: JobGraph, control: JobControl | None) -> JobResult:
        graphs.append(graph)
        return JobResult("job", graph.name, "FINISHED", 1.0, (), (), {})

    set_executor(executor)
    yield graphs
    set_executor(None)


def test_installed_executor_gets_the_jobs(executed: list[JobGraph]) -> None:
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.from_collection([1]).print().name("first")
    result = environment.execute("one")
    environment.from_collection([1]).print().name("second")
    environment.execute()

    assert result.job_id == "job"
    assert [graph.name for graph in executed] == ["one", "flinknet job"]
    assert [graph.vertices[0].name for graph in executed] == [
        "Source: Collection -> Sink: first",
        "Source: Collection -> Sink: second",
    ]


def test_refused_job_is_not_executed(executed: list[JobGraph]) -> None:
    environment = StreamExecutionEnvironment()
    environment.from_collection([1])

    with pytest.raises(ConfigurationError, match="has no operators"):
        environment.execute()
    assert executed == []


@pytest.mark.parametrize(("parallelism", "slots"), [(1, 2), (4, 2), (5, 3), (9, 5)])
def test_embedded_cluster_has_slots_for_the_job(parallelism: int, slots: int) -> None:
    environment = StreamExecutionEnvironment()
    environment.from_collection([1]).rebalance().print().set_parallelism(parallelism)

    config = embedded_config(environment.job_graph())

    assert (config.cluster.workers, config.cluster.slots_per_worker) == (2, slots)


async def test_execute_inside_an_event_loop() -> None:
    """It would wait for a job that this very loop cannot serve."""
    environment = StreamExecutionEnvironment()
    environment.from_collection([1]).print()

    with pytest.raises(ConfigurationError, match="execute_async"):
        execute(environment.job_graph())


def test_embedded_cluster_is_configured_as_flinknet_run_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings come from the file that FLINKNET_CONFIG names and from the environment.

    Given slots stay.
    """
    (tmp_path / "cluster.toml").write_text("[cluster]\nslots_per_worker = 1\nworkers = 3\n")
    monkeypatch.setenv("FLINKNET_CONFIG", str(tmp_path / "cluster.toml"))
    monkeypatch.setenv("FLINKNET_CLUSTER_WORKERS", "1")
    environment = StreamExecutionEnvironment()
    environment.from_collection([1]).rebalance().print().set_parallelism(2)

    config = embedded_config(environment.job_graph())

    assert (config.cluster.workers, config.cluster.slots_per_worker) == (1, 1)


def test_embedded_cluster_is_started_by_the_launcher_that_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLINKNET_CLUSTER_LAUNCHER", "nowhere")
    environment = StreamExecutionEnvironment()
    environment.from_collection([1]).print()

    with pytest.raises(ConfigurationError, match='cluster.launcher is "nowhere".* one of local,'):
        environment.execute()


async def test_jobs_in_threads_go_to_the_installed_executor(executed: list[JobGraph]) -> None:
    environment = StreamExecutionEnvironment()
    environment.from_collection([1]).print()
    client = environment.execute_async("beside")
    assert (await client).name == "beside"
    environment.from_collection([1]).print()
    environment.execute_async("unasked")
    finish_started()
    assert [graph.name for graph in executed] == ["beside", "unasked"]

"""The statistics of a worker while it runs a job; reading them lets other tasks run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from flinknet.cluster.control.submission import Submission
from flinknet.cluster.worker import worker_metrics
from flinknet.cluster.worker.worker_metrics import WorkerMetrics
from flinknet.config import MetricsConfig
from flinknet.metrics.task_catalogue import METERED, counts_of
from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.cluster.graphs import endless_graph
from tests.unit.cluster.running_cluster import Cluster, running_cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as cluster:
        yield cluster


async def records_flow(cluster: Cluster) -> str:
    """Run a job that does not end; return its id once its records arrive."""
    client = cluster.served.client()
    job_id = await client.submit(Submission.of_graph(endless_graph()))
    while (await client.progress(job_id, wait_ms=1)).vertices[-1].records_in == 0:
        pass
    return job_id


async def test_a_running_job_is_seen_with_its_gates_and_partitions(cluster: Cluster) -> None:
    job_id = await records_flow(cluster)
    metrics = cluster.served_workers[0].metrics
    statistics = await metrics.statistics(channels_max=3)
    while not all(row.channel.bytes_in for row in statistics.channels):
        statistics = await metrics.statistics(channels_max=3)
    source, sink = sorted(statistics.subtasks, key=lambda one: one.vertex)
    assert {(one.job_id, one.job_name, one.attempt) for one in (source, sink)} == {
        (job_id, "endless", 0)
    }
    assert source.vertex_name.startswith("Source")
    assert (len(source.gates), len(source.partitions)) == (0, 1)
    assert (len(sink.gates), len(sink.partitions)) == (1, 0)
    assert source.io_metrics.records_out > 0
    assert sink.io_metrics.records_in > 0
    assert sink.gates[0].channels == 2
    assert sink.gates[0].bytes_in_local > 0
    assert sink.gates[0].bytes_in_remote > 0
    assert [row.gate for row in statistics.channels] == [sink.gates[0].name] * 2
    assert len(statistics.connections) == 1
    assert statistics.connections[0].connection.bytes_in > 0
    assert statistics.network_pool.used > 0


async def test_every_reading_measures_how_long_a_subtask_takes_to_come_between_two_batches(
    cluster: Cluster,
) -> None:
    await records_flow(cluster)
    metrics = cluster.served_workers[0].metrics
    while not all(one.mailbox_latency_ms for one in (await metrics.statistics()).subtasks):
        await asyncio.sleep(0)
    assert {one.state for one in (await metrics.statistics()).subtasks} == {"RUNNING"}


async def test_channels_are_listed_only_on_request(cluster: Cluster) -> None:
    await records_flow(cluster)
    assert (await cluster.served_workers[0].metrics.statistics()).channels == ()


async def test_rates_come_with_the_second_reading(cluster: Cluster) -> None:
    await records_flow(cluster)
    metrics = cluster.served_workers[0].metrics
    first = (await metrics.statistics()).subtasks
    while counts_of((await metrics.statistics()).subtasks[1]) == counts_of(first[1]):
        await asyncio.sleep(0)
    clock = metrics.clock
    metrics.clock = lambda: clock() + 10.0
    _, sink = sorted((await metrics.statistics()).subtasks, key=lambda one: one.vertex)
    assert dict(zip(METERED, sink.rates, strict=True))["numRecordsIn"] > 0
    head, *_ = sink.operators
    assert head.records_in_per_second == sink.rates[METERED.index("numRecordsIn")]


async def test_a_loop_that_is_held_up_during_a_reading_makes_no_rate_larger(
    cluster: Cluster,
) -> None:
    await records_flow(cluster)
    seen = cluster.served_workers[0].metrics
    subtask, _ = sorted(seen._subtasks(), key=lambda one: one.descriptor.vertex)
    metrics = WorkerMetrics(seen._environment, lambda: [subtask], MetricsConfig(turn_channels=1))
    now = 0.0
    metrics.clock = lambda: now
    reading = asyncio.create_task(metrics.statistics())
    await asyncio.sleep(0)
    now += 1_000.0
    (before,) = (await reading).subtasks
    while subtask.io_metrics().records_out == before.io_metrics.records_out:
        await asyncio.sleep(0)
    now += 10.0
    (after,) = (await metrics.statistics()).subtasks
    emitted = after.io_metrics.records_out - before.io_metrics.records_out
    assert after.rates[METERED.index("numRecordsOut")] == emitted / 1_010.0


async def test_the_time_to_consume_buffers_comes_with_the_second_reading(
    cluster: Cluster,
) -> None:
    await records_flow(cluster)
    metrics = cluster.served_workers[0].metrics
    first = await metrics.statistics(channels_max=2)
    assert {row.time_to_consume_ms for row in first.channels} == {None}
    received = [gate.bytes_in_local for one in first.subtasks for gate in one.gates]
    while received == [
        gate.bytes_in_local for one in (await metrics.statistics()).subtasks for gate in one.gates
    ]:
        await asyncio.sleep(0)
    clock = metrics.clock
    metrics.clock = lambda: clock() + 10.0
    second = await metrics.statistics(channels_max=2)
    [gate] = next(one.gates for one in second.subtasks if one.gates)
    assert {row.time_to_consume_ms is None for row in second.channels} == {False}
    longest = max(row.time_to_consume_ms or 0.0 for row in second.channels)
    assert longest == pytest.approx(gate.time_to_consume_ms)
    assert gate.buffered_bytes == sum(row.buffered_bytes for row in second.channels)


async def test_a_subtask_that_has_ended_leaves_no_meter(cluster: Cluster) -> None:
    job_id = await records_flow(cluster)
    metrics = cluster.served_workers[0].metrics
    assert len((await metrics.statistics()).subtasks) == 2
    client = cluster.served.client()
    await client.cancel(job_id)
    while (await client.progress(job_id, wait_ms=100)).state != "CANCELED":
        pass
    statistics = await metrics.statistics()
    assert statistics.subtasks == ()
    assert metrics.meters == 0


async def test_the_loop_turns_while_channels_are_read(cluster: Cluster) -> None:
    await records_flow(cluster)
    seen = cluster.served_workers[0].metrics
    subtasks = list(seen._subtasks())
    metrics = WorkerMetrics(seen._environment, lambda: subtasks, MetricsConfig(turn_channels=1))
    reading = asyncio.create_task(metrics.statistics(channels_max=9))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 7, "two subpartitions, two channels, the reader of a connection, and two rows"
    assert [len((await reading).channels), len((await reading).subtasks)] == [2, 2]


async def test_one_reading_is_made_after_the_other(cluster: Cluster) -> None:
    """Otherwise a count of a later reading could be lower."""
    await records_flow(cluster)
    metrics = cluster.served_workers[0].metrics
    readings = await asyncio.gather(*(metrics.statistics() for _ in range(10)))
    counts = [[counts_of(task) for task in reading.subtasks] for reading in readings]
    assert counts == sorted(counts)


async def test_a_blocked_loop_is_seen_as_its_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_metrics, "WATCH_S", 0.0)
    async with NetworkEnvironment() as environment:
        metrics = WorkerMetrics(environment, lambda: ())
        watch = asyncio.create_task(metrics.watch())
        await asyncio.sleep(0)
        clock = metrics.clock
        metrics.clock = lambda: clock() + 2.0
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        lag_ms = (await metrics.statistics()).event_loop_lag_ms
        watch.cancel()
    assert 2_000 <= lag_ms < 60_000

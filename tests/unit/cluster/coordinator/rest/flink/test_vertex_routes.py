"""The requests of Flink's clients about vertices, over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import aiohttp

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.submission import Submission
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from flinknet.wire.events import MIN_WATERMARK
from tests.unit.cluster.control_plane import get
from tests.unit.cluster.graphs import endless_graph
from tests.unit.cluster.running_cluster import CONFIG, running_cluster


async def test_flinks_dashboard_sees_a_vertex() -> None:
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(endless_graph()))
        while not record.checkpoints.is_running:
            await asyncio.sleep(0)
        for worker in record.execution.workers:
            await coordinator.metrics.fetch(worker, channels_max=0, timeout_s=60.0)
        headers = authorization_headers(cluster.served.token)
        url, job = f"http://{cluster.served.address}", f"/v1/jobs/{record.job_id}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            _, details = await get(session, job)
            vertex = details["vertices"][1]
            path = f"{job}/vertices/{vertex['id']}"
            _, told = await get(session, path)
            assert (told["name"], len(told["subtasks"])) == (vertex["name"], 2)
            _, told = await get(session, f"{path}/subtasktimes")
            assert [one["subtask"] for one in told["subtasks"]] == [0, 1]
            _, told = await get(session, f"{path}/taskmanagers")
            ids = {one["taskmanager-id"] for one in told["taskmanagers"]}
            assert ids == set(record.execution.workers)
            _, told = await get(session, f"{path}/backpressure")
            assert [one["subtask"] for one in told["subtasks"]] == [0, 1]
            assert await get(session, f"{path}/watermarks") == (200, [])
            _, names = await get(session, f"{path}/metrics")
            assert {"id": "1.Shuffle.Netty.Input.Buffers.inPoolUsage"} in names
            _, (one,) = await get(session, f"{path}/metrics?get=0.numRecordsIn")
            assert one["value"].isdecimal()
            _, (one,) = await get(session, f"{path}/subtasks/metrics?get=numRecordsIn&agg=sum")
            assert set(one) == {"id", "sum"}
            status, told = await get(session, f"{job}/vertices/{'0' * 32}")
            assert (status, told) == (
                404,
                {"errors": [f'job "endless" has no vertex {"0" * 32}']},
            )
        coordinator.cancel(record)
        await coordinator.wait_for_end(record, 60.0)


async def test_a_request_for_stacks_takes_samples_and_may_wait_for_them() -> None:
    config = replace(CONFIG, stack_samples=3, stack_sample_delay_ms=1.0)
    async with running_cluster(config=config) as cluster:
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(endless_graph()))
        while not record.checkpoints.is_running:
            await asyncio.sleep(0)
        headers = authorization_headers(cluster.served.token)
        url, job = f"http://{cluster.served.address}", f"/v1/jobs/{record.job_id}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            _, details = await get(session, job)
            path = f"{job}/vertices/{details['vertices'][1]['id']}"
            _, told = await get(session, f"{path}/flamegraph")
            assert told == {"endTimestamp": -3, "data": None}
            _, full = await get(session, f"{path}/flamegraph?type=full&wait_ms=60000")
            assert full["data"]["value"] > 0
            names = {child["name"].partition(" ")[0] for child in full["data"]["children"]}
            assert "Subtask.run" in names
            parts = [
                (await get(session, f"{path}/flamegraph?type={kind}&subtaskindex={index}"))[1]
                for kind in ("ON_CPU", "OFF_CPU")
                for index in (0, 1)
            ]
            assert sum(part["data"]["value"] for part in parts) == full["data"]["value"]
            assert {part["endTimestamp"] for part in parts} == {full["endTimestamp"]}
            _, old = await get(session, f"{path}/backpressure?by=samples")
            assert [one["subtask"] for one in old["subtasks"]] == [0, 1]
            assert old["end-timestamp"] == full["endTimestamp"]
            query = "type=FULL&wait_ms=60000&again=1"
            _, again = await get(session, f"{path}/flamegraph?{query}")
            assert again["endTimestamp"] > full["endTimestamp"]
            status, refusal = await get(session, f"{path}/flamegraph?type=odd")
            assert (status, "choose FULL, full, ON_CPU" in refusal["errors"][0]) == (400, True)
            coordinator.cancel(record)
            await coordinator.wait_for_end(record, 60.0)
            _, told = await get(session, f"{path}/flamegraph")
            assert told == {"endTimestamp": -1, "data": None}


async def test_event_time_is_told_by_subtask() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda number, _: number
    )
    numbers = environment.from_source(GeneratorSource(lambda number: number))
    stamped = numbers.assign_timestamps_and_watermarks(strategy)
    stamped.key_by(lambda number: number % 7).map(lambda number: None).print()
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(environment.job_graph("event time")))
        headers = authorization_headers(cluster.served.token)
        url, job = f"http://{cluster.served.address}", f"/v1/jobs/{record.job_id}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            _, details = await get(session, job)
            source, keyed = (
                f"{job}/vertices/{vertex['id']}/watermarks" for vertex in details["vertices"]
            )
            told: list[dict[str, str]] = []
            while min((int(one["value"]) for one in told), default=MIN_WATERMARK) <= 0:
                for worker in record.execution.workers:
                    await coordinator.metrics.fetch(worker, channels_max=0, timeout_s=60.0)
                _, told = await get(session, keyed)
            assert [one["id"] for one in told] == [
                "0.currentInputWatermark",
                "1.currentInputWatermark",
            ]
            assert await get(session, source) == (200, []), "a source has no input"
        coordinator.cancel(record)
        await coordinator.wait_for_end(record, 60.0)

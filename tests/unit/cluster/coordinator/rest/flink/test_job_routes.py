"""The requests of Flink's clients about jobs, over HTTP."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import aiohttp

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.rest.flink.job_routes import job_result
from tests.unit.cluster.control_plane import get
from tests.unit.cluster.coordinator.rest.flink.jobs import open_all, release, result, submitted
from tests.unit.cluster.graphs import endless_graph, keyed_graph
from tests.unit.cluster.running_cluster import running_cluster

LATENCY = re.compile(
    r"latency\.source_id\.[0-9a-f]{32}\.operator_id\.[0-9a-f]{32}\.operator_subtask_index\.[01]\.latency_max"
)


async def latency_names(session: aiohttp.ClientSession, job: str) -> list[str]:
    """Return the names of latencies among the job's metrics."""
    _, names = await get(session, f"{job}/metrics")
    return [one["id"] for one in names if one["id"].startswith("latency.")]


async def test_flinks_clients_see_a_job_and_cancel_it() -> None:
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        record = coordinator.submit(
            Submission.of_graph(replace(endless_graph(), latency_interval_ms=1))
        )
        while not record.checkpoints.is_running:
            await asyncio.sleep(0)
        headers = authorization_headers(cluster.served.token)
        url, job = f"http://{cluster.served.address}", f"/v1/jobs/{record.job_id}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            _, jobs = await get(session, "/v1/jobs")
            assert jobs == {"jobs": [{"id": record.job_id, "status": "RUNNING"}]}
            _, overview = await get(session, "/v1/jobs/overview")
            assert [row["name"] for row in overview["jobs"]] == ["endless"]
            _, details = await get(session, job)
            assert {vertex["status"] for vertex in details["vertices"]} == {"RUNNING"}
            assert (await get(session, f"{job}/plan"))[1] == {"plan": details["plan"]}
            _, config = await get(session, f"{job}/config")
            assert config["execution-config"]["job-parallelism"] == 2
            _, exceptions = await get(session, f"{job}/exceptions?maxExceptions=3")
            assert exceptions["exceptionHistory"] == {"entries": [], "truncated": False}
            _, accumulators = await get(session, f"{job}/accumulators")
            assert accumulators["job-accumulators"] == []
            _, values = await get(session, f"{job}/metrics?get=numRestarts")
            assert values == [{"id": "numRestarts", "value": "0"}]
            while not (latencies := await latency_names(session, job)):
                await asyncio.sleep(0)
            assert LATENCY.fullmatch(latencies[0])
            _, values = await get(session, f"{job}/metrics?get={latencies[0]}")
            assert float(values[0]["value"]) >= 0
            async with session.patch(job, params={"mode": "stop"}) as response:
                assert response.status == 400
            for _ in range(2):
                async with session.patch(job) as response:
                    assert (response.status, await response.json()) == (202, {})
                await coordinator.wait_for_end(record, 60.0)
            assert await get(session, f"{job}/status") == (200, {"status": "CANCELED"})
            _, result = await get(session, f"{job}/execution-result")
            assert result["job-execution-result"]["application-status"] == "CANCELED"


async def test_a_job_that_has_finished_is_not_cancelled() -> None:
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(keyed_graph()))
        await coordinator.wait_for_end(record, 60.0)
        headers = authorization_headers(cluster.served.token)
        url = f"http://{cluster.served.address}"
        async with (
            aiohttp.ClientSession(url, headers=headers) as session,
            session.patch(f"/v1/jobs/{record.job_id}", params={"mode": "cancel"}) as response,
        ):
            assert response.status == 409
            assert await response.json() == {"errors": ['job "sums" is FINISHED already']}


def test_a_job_that_runs_has_no_result_yet() -> None:
    _, record = submitted()
    assert job_result(record) == {"status": {"id": "IN_PROGRESS"}}


def test_one_that_has_finished_has_succeeded() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    for subtask in record.execution.subtask_states():
        dispatcher.take_result(record, record.present, subtask, result(), 3.0)
    release(dispatcher, record, 4.0)
    assert job_result(record) == {
        "status": {"id": "COMPLETED"},
        "job-execution-result": {
            "id": record.job_id,
            "application-status": "SUCCEEDED",
            "accumulator-results": {},
            "net-runtime": 3000,
        },
    }


def test_one_that_was_cancelled_has_no_cause() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    dispatcher.cancel(record, 3.0)
    release(dispatcher, record, 4.0)
    told = job_result(record)["job-execution-result"]
    assert told["application-status"] == "CANCELED"
    assert "failure-cause" not in told


def test_one_that_has_failed_says_why() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    record.execution.fail(FailureCause.of_coordinator(7, "ends"), 3.0)
    release(dispatcher, record, 4.0)
    told = job_result(record)["job-execution-result"]
    assert told["application-status"] == "FAILED"
    assert told["failure-cause"]["stack-trace"] == "the coordinator (pid 7) ends"

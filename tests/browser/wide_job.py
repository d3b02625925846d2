"""A program: a coordinator with a job of 2,000 subtasks, on workers that only send reports.

It prints the address of its page. For each line of input it makes all workers report, one second of
the job later, and prints a line.
"""

from __future__ import annotations

import asyncio
import sys

from flinknet.cluster.control.messages import Opened, StatisticsReport
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.config import ClusterConfig
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment
from flinknet.graph.graph import JobGraph
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.worker_statistics import SubtaskTotals, WorkerStatistics, pack_statistics
from tests.unit.cluster.control_plane import serve_control_plane
from tests.unit.metrics.samples import network, subtask, times

PARALLELISM = 1_000
WORKERS = ("worker-0", "worker-1")
REPORT_BYTES_MAX = 2**24


def graph() -> JobGraph:
    environment = StreamExecutionEnvironment().set_parallelism(PARALLELISM)
    environment.set_max_parallelism(2 * PARALLELISM)
    numbers = environment.from_source(GeneratorSource(lambda number: number))
    numbers.rebalance().map(lambda number: number).sink_to(lambda record: None)
    return environment.job_graph("wide")


def task(job_id: str, vertex: int, index: int, second: int) -> SubtaskTotals:
    spent = times(
        accumulated_idle_time_ms=0.0,
        accumulated_busy_time_ms=second * index,
        accumulated_backpressured_time_ms=second * (1_000 - index),
    )
    counters = IOMetrics(index * second, index, 3, 4, 5, 6, 7)
    return subtask(index, job_id=job_id, vertex=vertex, io_metrics=counters, times=spent)


def report(coordinator: Coordinator, job_id: str, second: int) -> None:
    for number, worker in enumerate(WORKERS):
        tasks = [
            task(job_id, vertex, index, second)
            for vertex in range(2)
            for index in range(number, PARALLELISM, len(WORKERS))
        ]
        statistics = WorkerStatistics.of(network(), tasks, event_loop_lag_ms=1.0)
        body = StatisticsReport(0, pack_statistics(statistics, REPORT_BYTES_MAX))
        coordinator.metrics.take(worker, body, second)


async def main() -> None:
    config = ClusterConfig(workers=len(WORKERS), heartbeat_timeout_ms=1e6)
    async with (
        serve_control_plane(config) as served,
        served.worker(WORKERS[0], slots=PARALLELISM),
        served.worker(WORKERS[1], slots=PARALLELISM),
    ):
        record = served.coordinator.submit(Submission.of_graph(graph()))
        for worker in record.execution.workers:
            served.coordinator.receive(worker, Opened(record.job_id, 0))
        second = 1
        report(served.coordinator, record.job_id, second)
        address = f"http://{served.address}/#token={served.token}/jobs/{record.job_id}"
        print(f"page: {address}", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            second += 1
            report(served.coordinator, record.job_id, second)
            print("reported", flush=True)


if __name__ == "__main__":
    asyncio.run(main())

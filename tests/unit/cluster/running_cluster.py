"""Workers that run real jobs; coordinator and workers run in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from flinknet.cluster.control.messages import Register
from flinknet.cluster.worker.worker import Worker
from flinknet.config import ClusterConfig, NetworkConfig
from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.cluster.control_plane import ServedCoordinator, serve_control_plane

__all__ = ["CONFIG", "Cluster", "running_cluster"]

CONFIG = ClusterConfig(
    workers=2,
    heartbeat_interval_ms=10.0,
    heartbeat_timeout_ms=10_000.0,
    progress_interval_ms=5.0,
    cause_grace_ms=50.0,
    collect_records_max=1_000,
    collect_bytes_max=10_000,
)


class Cluster:
    """A served coordinator and the tasks of its workers."""

    def __init__(self, served: ServedCoordinator) -> None:
        self.served = served
        self.config = served.coordinator.config
        self.stops: list[asyncio.Event] = []
        self.workers: list[asyncio.Task[int]] = []
        self.environments: list[NetworkEnvironment] = []
        self.served_workers: list[Worker] = []

    async def work(self, number: int, network: NetworkConfig) -> int:
        stop = asyncio.Event()
        environment = NetworkEnvironment(worker_id=f"worker-{number}", config=network)
        async with environment, self.served.link() as link:
            message = Register(environment.worker_id, 100 + number, environment.address, 2)
            registered = await link.register(message)
            self.stops.append(stop)
            self.environments.append(environment)
            worker = Worker(environment, link, self.config)
            self.served_workers.append(worker)
            return await worker.serve(registered, stop)

    def nothing_is_held(self) -> bool:
        """Whether every worker's buffers are back, and its partitions and gates are gone."""
        statistics = [environment.statistics() for environment in self.environments]
        return all(
            not worker.partitions
            and not worker.gates
            and worker.network_pool.free == worker.network_pool.total
            for worker in statistics
        )


@asynccontextmanager
async def running_cluster(
    network: NetworkConfig | None = None, config: ClusterConfig = CONFIG
) -> AsyncIterator[Cluster]:
    """Run a coordinator and its workers."""
    async with serve_control_plane(config) as served:
        cluster = Cluster(served)
        for number in range(config.workers):
            cluster.workers.append(
                asyncio.create_task(cluster.work(number, network or NetworkConfig()))
            )
        await served.coordinator.ready.wait()
        yield cluster
        for stop in cluster.stops:
            stop.set()
        await asyncio.gather(*cluster.workers)

"""``flinknet top``: a live view of a cluster and its jobs on the terminal."""

from __future__ import annotations

import asyncio

from flinknet.cli.arguments import ConfigFile, OptionalJob, RunningCluster
from flinknet.cli.cluster_client import cluster_client
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.errors import ConfigurationError

__all__ = ["top"]


def top(
    job: OptionalJob = None,
    *,
    cluster: RunningCluster = None,
    config: ConfigFile = None,
) -> None:
    """Watch a cluster, or one job of it: the diagnosis, and each operator and subtask.

    The numbers are those of the web page. Enter opens a job or an operator, Escape goes back, q
    quits. The command needs the extra flinknet[top]. FLINKNET_CLUSTER_TOKEN is the cluster's token.
    Exit status: 0 quit, 2 refused, no such job, or the cluster cannot be reached.
    """
    try:
        from flinknet.cli.top_screen import Top
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"flinknet top needs the extra flinknet[top]: pip install 'flinknet[top]' ({error})"
        ) from error

    async def watch(client: CoordinatorClient) -> None:
        job_id = None if job is None else await client.find_job(job)
        await Top(client.read, job_id).run_async()

    asyncio.run(watch(cluster_client(cluster, config)))

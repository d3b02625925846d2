"""``flinknet cancel``: end a job at once, without a savepoint."""

from __future__ import annotations

import asyncio
import json

from flinknet.cli.arguments import AsJson, ConfigFile, RunningCluster, SavedJob
from flinknet.cli.cluster_client import cluster_client
from flinknet.cluster.control.client import CoordinatorClient

__all__ = ["cancel"]


def cancel(
    job: SavedJob,
    *,
    cluster: RunningCluster = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a running job, and print the state that it ended in.

    The job writes no savepoint; its checkpoints stay unless the job says otherwise.
    FLINKNET_CLUSTER_TOKEN is the cluster's secret, as that of the cluster was set. Exit status: 0
    the job has ended, 1 it does not run, 2 refused.
    """
    state = asyncio.run(_cancel(cluster_client(cluster, config), job))
    print(json.dumps({"state": state}) if as_json else state)


async def _cancel(client: CoordinatorClient, job: str) -> str:
    async with client:
        job_id = await client.find_job(job)
        await client.cancel(job_id)
        return (await client.until_ended(job_id)).state

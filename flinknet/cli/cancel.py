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
    """Cancel a job, and print the state in which it ended.

    The job writes no savepoint; its checkpoints stay unless the job says otherwise. A job that had
    ended before stays as it is, and its state is printed. FLINKNET_CLUSTER_TOKEN is the cluster's
    token. Exit status: 0 the job has ended, 2 refused, or there is no such job.
    """
    state = asyncio.run(_cancel(cluster_client(cluster, config), job))
    print(json.dumps({"state": state}) if as_json else state)


async def _cancel(client: CoordinatorClient, job: str) -> str:
    job_id = await client.find_job(job)
    await client.cancel(job_id)
    return (await client.until_ended(job_id)).state

"""``flinknet stop``: end a job with a savepoint."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from flinknet.checkpoint.location import absolute_location
from flinknet.cli.arguments import (
    AsJson,
    ConfigFile,
    RunningCluster,
    SavedJob,
)
from flinknet.cli.cluster_client import cluster_client
from flinknet.cluster.control.client import CoordinatorClient

__all__ = ["stop"]


def stop(
    job: SavedJob,
    *,
    savepoint_path: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Directory or URL for the savepoint. Default: that of the job's checkpoints.",
        ),
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="End the job as at the end of its input: windows fire.")
    ] = False,
    cluster: RunningCluster = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """End a running job with a savepoint, and print the savepoint's location.

    FLINKNET_CLUSTER_TOKEN is the cluster's token. Exit status: 0 the job has ended, 1 it was not
    running, 2 refused, no such job, or the savepoint failed.
    """
    place = None if savepoint_path is None else absolute_location(savepoint_path)
    location = asyncio.run(_stop(cluster_client(cluster, config), job, place, drain=drain))
    print(json.dumps({"location": location}) if as_json else location)


async def _stop(client: CoordinatorClient, job: str, place: str | None, *, drain: bool) -> str:
    return await client.stop(await client.find_job(job), place, drain=drain)

"""``flinknet savepoint``: write a savepoint of a running job."""

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

__all__ = ["savepoint"]

Directory = Annotated[
    str | None,
    typer.Argument(
        metavar="[DIR]",
        help="Directory or URL for the savepoint. Default: that of the job's checkpoints.",
    ),
]


def savepoint(
    job: SavedJob,
    directory: Directory = None,
    *,
    cluster: RunningCluster = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a savepoint of a running job, and print its location; the job goes on.

    FLINKNET_CLUSTER_TOKEN is the cluster's token. Exit status: 0 written, 1 the job is not running,
    2 refused, no such job, or the savepoint failed.
    """
    place = None if directory is None else absolute_location(directory)
    location = asyncio.run(_savepoint(cluster_client(cluster, config), job, place))
    print(json.dumps({"location": location}) if as_json else location)


async def _savepoint(client: CoordinatorClient, job: str, place: str | None) -> str:
    return await client.savepoint(await client.find_job(job), place)

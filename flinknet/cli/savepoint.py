"""``flinknet savepoint``: a savepoint of a job that runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from flinknet.checkpoint.location import absolute_place
from flinknet.cli.arguments import (
    AsJson,
    ConfigFile,
    CoordinatorAddress,
    SavedJob,
    cluster_config,
)
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import take_token
from flinknet.errors import ConfigurationError

__all__ = ["coordinator_client", "savepoint"]

Directory = Annotated[
    str | None,
    typer.Argument(
        metavar="[DIR]", help="Where: a directory or URL; by default with the job's checkpoints."
    ),
]


def savepoint(
    job: SavedJob,
    directory: Directory = None,
    *,
    coordinator: CoordinatorAddress = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a savepoint of a running job, which goes on, and print where it is.

    FLINKNET_CLUSTER_TOKEN is the cluster's secret, as that of the cluster was set. Exit status: 0
    written, 1 the job does not run, 2 refused, or the savepoint failed.
    """
    place = None if directory is None else absolute_place(directory)
    location = asyncio.run(_savepoint(coordinator_client(coordinator, config), job, place))
    print(json.dumps({"location": location}) if as_json else location)


async def _savepoint(client: CoordinatorClient, job: str, place: str | None) -> str:
    async with client:
        return await client.savepoint(await client.find_job(job), place)


def coordinator_client(coordinator: str | None, config: Path | None) -> CoordinatorClient:
    """Return a client of a cluster that runs; ConfigurationError if it is not said which, or what
    its secret is."""
    cluster = cluster_config(config, None, None, None).cluster
    if coordinator is None:
        if not cluster.coordinator_port:
            raise ConfigurationError(
                "the coordinator's address is not known: name it by --coordinator HOST:PORT, as "
                "the coordinator says where it listens, or set cluster.coordinator_port for both"
            )
        coordinator = f"{cluster.host}:{cluster.coordinator_port}"
    return CoordinatorClient(coordinator, take_token(cluster.token_file), cluster)

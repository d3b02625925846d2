"""``flinknet jobs``: the jobs of a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from flinknet.cli.arguments import AsJson, ConfigFile, RunningCluster
from flinknet.cli.cluster_client import cluster_client
from flinknet.cli.console import table_console
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.launch.fitting_table import FittingTable
from flinknet.texts import printable

__all__ = ["jobs"]


def jobs(
    *,
    cluster: RunningCluster = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs of a cluster, including ended jobs that it still remembers.

    The JSON is that of Flink's REST API, /v1/jobs/overview. FLINKNET_CLUSTER_TOKEN is the cluster's
    token. Exit status: 0 listed, 2 refused, or the cluster cannot be reached.
    """
    overview = asyncio.run(_read(cluster_client(cluster, config)))
    if as_json:
        print(json.dumps(overview, indent=2))
    elif overview["jobs"]:
        table_console().print(_table(overview["jobs"]))
    else:
        print("there are no jobs")


async def _read(client: CoordinatorClient) -> Any:
    return await client.read("/v1/jobs/overview")


def _table(rows: list[Mapping[str, Any]]) -> FittingTable:
    table = FittingTable(names=("job", "id", "state"), numbers=("for", "tasks", "running"))
    for row in sorted(rows, key=lambda row: -row["start-time"]):
        table.add_row(
            Text(printable(row["name"])),
            row["jid"],
            "waits for slots" if row["state"] == "CREATED" else row["state"],
            f"{row['duration'] / 1000:,.1f} s",
            f"{row['tasks']['total']:,}",
            f"{row['tasks']['running']:,}",
        )
    return table

"""``flinknet diagnose``: the culprit that holds a job up, and the reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from flinknet.cli.arguments import AsJson, ConfigFile, RunningCluster, SavedJob
from flinknet.cli.cluster_client import cluster_client
from flinknet.cli.console import table_console
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.launch.fitting_table import FittingTable
from flinknet.texts import counted, printable

__all__ = ["diagnose", "verdict_in_words"]

_Json = Mapping[str, Any]

_LOST_MAX = 5
"""Maximum number of tasks listed that lost time to a culprit."""


def diagnose(
    job: SavedJob,
    *,
    cluster: RunningCluster = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what holds a job up, with the evidence and the time that other tasks lost to it.

    The diagnosis uses the last ten reports of the workers. The JSON is that of
    /api/v1/jobs/JOB/diagnosis: its "verdict" is healthy, troubled or unknown.
    FLINKNET_CLUSTER_TOKEN is the cluster's token. Exit status: 0 shown, 2 refused, or there is no
    such job.
    """
    told = asyncio.run(_read(cluster_client(cluster, config), job))
    if as_json:
        print(json.dumps(told, indent=2))
        return
    console = table_console()
    for line in _lines(told):
        console.print(Text(printable(line)), soft_wrap=True)
    if told["tasks"]:
        console.print(_table(told["tasks"]))


async def _read(client: CoordinatorClient, name: str) -> Any:
    return await client.read(f"/api/v1/jobs/{await client.find_job(name)}/diagnosis")


def verdict_in_words(verdict: str) -> str:
    """Return a verdict of the JSON in the words shown to users."""
    return "not known yet" if verdict == "unknown" else verdict


def _lines(told: _Json) -> Iterator[str]:
    yield f"{told['name']}, {told['state']}: {verdict_in_words(told['verdict'])}"
    if not told["findings"]:
        yield told["sentence"]
    for finding in told["findings"]:
        yield ""
        yield f"{finding['kind']}: {finding['sentence']}"
        for evidence in finding["evidence"]:
            yield f"  - {evidence}"
        yield from _lost(finding["lost"])


def _lost(lost: Sequence[_Json]) -> Iterator[str]:
    for one in lost[:_LOST_MAX]:
        still = ", and is waiting now" if one["is_ongoing"] else ""
        yield f"  {one['task']['name']} lost {one['seconds']:.1f} s ({one['share']:.0%}){still}"
    if len(lost) > _LOST_MAX:
        yield f"  and {counted(len(lost) - _LOST_MAX, 'more task')} lost less"


def _table(tasks: Sequence[_Json]) -> FittingTable:
    table = FittingTable(
        names=("task", "worker"),
        numbers=(
            *("busy", "backpressured", "idle", "level", "in pool", "out pool"),
            *("records in/s", "records out/s"),
        ),
    )
    for row in tasks:
        shares = ("busy", "backpressured", "idle")
        table.add_row(
            Text(printable(row["task"]["name"])),
            row["worker_id"],
            *(f"{row[share]:.0%}" for share in shares),
            row["level"],
            *(f"{row[pool]:.0%}" for pool in ("in_pool", "out_pool")),
            f"{row['throughput']['records_in_per_s']:,.0f}",
            f"{row['throughput']['records_out_per_s']:,.0f}",
        )
    return table

"""``flinknet metrics``: the metrics of a job and of its operators, under Flink's names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any
from urllib.parse import urlencode

import typer
from rich.text import Text

from flinknet.cli.arguments import AsJson, ConfigFile, RunningCluster, SavedJob
from flinknet.cli.cluster_client import cluster_client
from flinknet.cli.console import table_console
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.launch.fitting_table import FittingTable
from flinknet.errors import ConfigurationError
from flinknet.texts import printable

__all__ = ["metrics"]

_Json = Mapping[str, Any]

_AGGREGATES = ("min", "max", "avg", "sum")

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="Metrics; * stands for any text: 'numRecords*'. Default: all metrics.",
    ),
]


def metrics(
    job: SavedJob,
    names: Names = None,
    *,
    operator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only operators whose names contain this text."),
    ] = None,
    cluster: RunningCluster = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the metrics of a job and of its operators, aggregated over their subtasks.

    Values are from the last reports of the workers. The JSON is {"job": {NAME: VALUE}, "operators":
    [{"id", "name", "metrics": {NAME: {"min", "max", "avg", "sum"}}}]}. FLINKNET_CLUSTER_TOKEN is
    the cluster's token. Exit status: 0 shown, 2 refused, or there is no such job or metric.
    """
    client = cluster_client(cluster, config)
    found = asyncio.run(_read(client, job, names or ["*"], operator))
    if not found["job"] and not any(one["metrics"] for one in found["operators"]):
        raise ConfigurationError(
            f"job {job} has no metric {' or '.join(names or '*')}"
            + (f" at an operator with {operator!r} in its name" if operator else "")
            + f": `flinknet metrics {job}` lists all metrics"
        )
    if as_json:
        print(json.dumps(found, indent=2))
        return
    console = table_console()
    if found["job"]:
        console.print(_job_table(found["job"]))
    for one in found["operators"]:
        if one["metrics"]:
            console.print(_operator_table(one))


async def _read(
    client: CoordinatorClient, name: str, patterns: Sequence[str], operator: str | None
) -> dict[str, Any]:
    path = f"/v1/jobs/{await client.find_job(name)}"
    of_job = {} if operator else await _values(client, f"{path}/metrics", patterns)
    operators = []
    for vertex in (await client.read(path))["vertices"]:
        if operator is None or operator in vertex["name"]:
            rows = await _values(
                client, f"{path}/vertices/{vertex['id']}/subtasks/metrics", patterns
            )
            operators.append({"id": vertex["id"], "name": vertex["name"], "metrics": rows})
    return {"job": {name: row["value"] for name, row in of_job.items()}, "operators": operators}


async def _values(
    client: CoordinatorClient, path: str, patterns: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Read the metrics at ``path`` that match a pattern, by name."""
    names = [one["id"] for one in await client.read(path)]
    wanted = [name for name in names if any(fnmatchcase(name, one) for one in patterns)]
    if not wanted:
        return {}
    rows = await client.read(f"{path}?{urlencode({'get': ','.join(wanted)})}")
    return {row.pop("id"): row for row in rows}


def _job_table(values: _Json) -> FittingTable:
    table = FittingTable(title=Text("the job"), names=("metric",), numbers=("value",))
    for name, value in values.items():
        table.add_row(name, _short(float(value)))
    return table


def _operator_table(operator: _Json) -> FittingTable:
    title = Text(printable(operator["name"]))
    table = FittingTable(title=title, names=("metric",), numbers=_AGGREGATES)
    for name, row in operator["metrics"].items():
        table.add_row(name, *(_short(row[aggregate]) for aggregate in _AGGREGATES))
    return table


def _short(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"

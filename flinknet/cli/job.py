"""``flinknet job``: the work of each operator of a job."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from flinknet.cli.arguments import AsJson, ConfigFile, RunningCluster, SavedJob
from flinknet.cli.cluster_client import cluster_client
from flinknet.cli.console import table_console
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.launch.fitting_table import FittingTable
from flinknet.metrics.task_times import BackpressureLevel
from flinknet.texts import printable

__all__ = ["job"]

_Json = Mapping[str, Any]

_LEVELS = list(BackpressureLevel.__members__)


def job(
    job: SavedJob,
    *,
    cluster: RunningCluster = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the records, rates and times of each operator of a job.

    Busy, backpressured and level are the highest recent values of all subtasks. The JSON has the
    answers of /v1/jobs/JOB as "job", /v1/jobs/JOB/checkpoints as "checkpoints",
    /v1/jobs/JOB/exceptions as "exceptions", the tasks of the diagnosis as "tasks", and the times of
    latency markers, if the job has some, as "latency".
    FLINKNET_CLUSTER_TOKEN is the cluster's token. Exit status: 0 shown, 2 refused, or there is no
    such job.
    """
    answers = asyncio.run(_read(cluster_client(cluster, config), job))
    if as_json:
        print(json.dumps(answers, indent=2))
        return
    console = table_console()
    console.print(_table(answers["job"], answers["tasks"]))
    if answers["latency"]:
        console.print(_latency_table(answers["latency"]))
    for line in (*_checkpoints(answers["checkpoints"]), *_failure(answers["exceptions"])):
        console.print(Text(printable(line)), soft_wrap=True)


async def _read(client: CoordinatorClient, name: str) -> dict[str, Any]:
    job_id = await client.find_job(name)
    return {
        "job": await client.read(f"/v1/jobs/{job_id}"),
        "checkpoints": await client.read(f"/v1/jobs/{job_id}/checkpoints"),
        "exceptions": await client.read(f"/v1/jobs/{job_id}/exceptions"),
        "latency": (await client.read(f"/api/v1/jobs/{job_id}/latency"))["latency"],
        "tasks": (await client.read(f"/api/v1/jobs/{job_id}/diagnosis"))["tasks"],
    }


def _table(details: _Json, tasks: Sequence[_Json]) -> FittingTable:
    of_vertex: defaultdict[str, list[_Json]] = defaultdict(list)
    for task in tasks:
        of_vertex[task["task"]["vertex_id"]].append(task)
    seconds = details["duration"] / 1000
    table = FittingTable(
        title=Text(
            printable(f"{details['name']} ({details['jid']}): {details['state']}, {seconds:,.1f} s")
        ),
        names=("operator", "state"),
        numbers=(
            *("subtasks", "records in", "records out", "records in/s", "records out/s"),
            *("busy", "backpressured", "level"),
        ),
    )
    for vertex in details["vertices"]:
        moved = vertex["metrics"]
        table.add_row(
            Text(printable(vertex["name"])),
            vertex["status"],
            f"{vertex['parallelism']:,}",
            f"{moved['read-records']:,}",
            f"{moved['write-records']:,}",
            *_of_late(of_vertex[vertex["id"]]),
        )
    return table


def _of_late(tasks: Sequence[_Json]) -> Iterator[str]:
    """Yield the rates summed over all subtasks, and the largest share of each kind of time."""
    if not tasks:
        yield from "-" * 5
        return
    for rate in ("records_in_per_s", "records_out_per_s"):
        yield f"{sum(task['throughput'][rate] for task in tasks):,.0f}"
    for share in ("busy", "backpressured"):
        yield f"{max(task[share] for task in tasks):.0%}"
    yield max((task["level"] for task in tasks), key=_LEVELS.index)


def _latency_table(rows: Sequence[_Json]) -> FittingTable:
    """Return the latency from each source to each operator, in the subtask with the longest."""
    table = FittingTable(
        title=Text("latency in milliseconds"),
        names=("source", "operator"),
        numbers=("markers", "median", "p99", "max"),
    )
    worst: dict[tuple[str, str], _Json] = {}
    markers: Counter[tuple[str, str]] = Counter()
    for row in rows:
        way = row["source"] or "all", row["operator"]
        markers[way] += row["markers"]
        if way not in worst or row["p99"] > worst[way]["p99"]:
            worst[way] = row
    for way, row in worst.items():
        numbers = (markers[way], row["median"], row["p99"], row["max"])
        table.add_row(*(Text(printable(name)) for name in way), *(f"{one:,}" for one in numbers))
    return table


def _checkpoints(checkpoints: _Json) -> Iterator[str]:
    counts = checkpoints["counts"]
    if counts["total"]:
        yield (
            f"checkpoints: {counts['completed']:,} completed, {counts['failed']:,} failed, "
            f"{counts['in_progress']:,} in progress"
        )
    last = checkpoints["latest"]["completed"]
    if last is not None:
        yield (
            f"the last completed one, {last['id']}, took "
            f"{last['end_to_end_duration'] / 1000:.2f} s and has {last['state_size']:,} bytes"
        )


def _failure(exceptions: _Json) -> Iterator[str]:
    if exceptions["root-exception"]:
        first = exceptions["root-exception"].strip().splitlines()[-1]
        yield f"the last failure: {first}"

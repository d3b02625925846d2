"""``flinknet cluster``: start, look at and stop a persistent cluster on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Annotated, Any

import typer
from rich.text import Text

from flinknet.cli.arguments import AsJson, ConfigFile, Slots
from flinknet.cli.console import table_console
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import page_address
from flinknet.cluster.launch.cluster_directory import (
    DEFAULT_NAME,
    ClusterDirectory,
    RunningCluster,
)
from flinknet.cluster.launch.daemon import LAST_LINES, start_cluster, stop_cluster
from flinknet.cluster.launch.fitting_table import FittingTable
from flinknet.cluster.launch.named_clusters import NamedCluster, named_cluster
from flinknet.config.loading import load_settings
from flinknet.texts import counted, printable

__all__ = ["start", "status", "stop"]

EXIT_DEAD = 1

ClusterName = Annotated[
    str, typer.Argument(metavar="[NAME]", help="The cluster's name.", show_default=True)
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Worker processes; 0 starts a coordinator alone, for workers of `flinknet worker`."
    ),
]


def start(
    name: ClusterName = DEFAULT_NAME,
    *,
    workers: Workers = None,
    slots: Slots = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Start a cluster that stays when the terminal is closed, and print its address.

    Jobs run on it with `flinknet run JOB.py --cluster NAME`. Its token is FLINKNET_CLUSTER_TOKEN if
    that is set, otherwise a new one. Exit status: 0 the cluster is ready, 1 it did not start, 2
    refused, for example because a cluster of that name runs.
    """
    directory = ClusterDirectory(name)
    started = start_cluster(directory, config, workers, slots)
    if as_json:
        told = {"name": name, "address": started.address, "page": started.page}
        print(json.dumps({**told, "directory": str(directory.path)}, indent=2))
        return
    print(f"cluster {name} runs at {started.address}")
    print(f"page:  {started.page} (its token is in {directory.path / 'token'})")
    print(f"logs:  {directory.log}, {directory.output}")


def status(name: ClusterName = DEFAULT_NAME, *, as_json: AsJson = False) -> None:
    """Show coordinator, workers, slots and jobs of a cluster, or why it is dead.

    Exit status: 0 it runs, 1 it has died, 2 there is none of that name, or it cannot be asked.
    """
    directory = ClusterDirectory(name)
    running = directory.running()
    if running is not None and not directory.is_locked():
        _print_dead(directory, running, as_json=as_json)
        raise typer.Exit(EXIT_DEAD)
    cluster = named_cluster(name)
    told = asyncio.run(_read(cluster))
    page = page_address(cluster.address, tls=cluster.config.cluster.tls.is_on)
    told = {"name": name, "state": "running", "address": cluster.address, "page": page, **told}
    if as_json:
        print(json.dumps(told, indent=2))
    else:
        _print_running(told)


def stop(name: ClusterName = DEFAULT_NAME, *, config: ConfigFile = None) -> None:
    """Stop a cluster: its jobs fail, and all of its processes have ended when this returns.

    Exit status: 0 stopped, 1 it did not stop in time, 2 it does not run.
    """
    cluster = load_settings(config, os.environ, {}).config.cluster
    # The coordinator and the workers stop one after the other, each within the timeout.
    patience_s = 4 * cluster.stop_timeout_ms / 1000
    stop_cluster(ClusterDirectory(name), patience_s)
    print(f"cluster {name} has been stopped")


def _print_dead(directory: ClusterDirectory, running: RunningCluster, *, as_json: bool) -> None:
    lines = directory.last_lines(LAST_LINES)
    if as_json:
        told = {"name": directory.name, "state": "dead", "address": running.address}
        print(json.dumps({**told, "pid": running.pid, "log": lines}, indent=2))
        return
    print(
        f"cluster {directory.name} is dead: its supervisor (pid {running.pid}) has ended "
        "unexpectedly, and its coordinator and workers with it"
    )
    print(f"the last lines of {directory.log}:")
    for line in lines:
        print(printable(f"  {line}"))


async def _read(cluster: NamedCluster) -> dict[str, Any]:
    client = CoordinatorClient(cluster.address, cluster.token, cluster.config.cluster)
    overview = await client.read("/api/v1/overview")
    workers = (await client.read("/api/v1/workers"))["workers"]
    jobs = (await client.read("/api/v1/jobs"))["jobs"]
    return {**overview, "workers": workers, "jobs": jobs}


def _print_running(told: dict[str, Any]) -> None:
    console = table_console()
    there = [one for one in told["workers"] if one["loss"] is None]
    print(f"cluster {told['name']} runs at {told['address']}")
    print(f"page: {told['page']}")
    slots = counted(told["slots"], "slot")
    print(f"{counted(len(there), 'worker')}, {slots}, {told['free_slots']} free")
    if told["workers"]:
        table = FittingTable(names=("worker", "state", "address"), numbers=("pid", "slots", "free"))
        for one in told["workers"]:
            numbers = (str(one["pid"]), str(one["slots"]), str(one["free_slots"]))
            lost = one["loss"] is not None
            table.add_row(
                Text(printable(one["worker_id"])),
                Text(printable(one["loss"] if lost else one["state"])),
                one["address"],
                *numbers,
            )
        console.print(table)
    if not told["jobs"]:
        print("no jobs")
        return
    table = FittingTable(names=("job", "id", "state"), numbers=("for",))
    for one in told["jobs"]:
        name = Text(printable(one["name"]))
        state = "waits for slots" if one["state"] == "CREATED" else one["state"]
        table.add_row(name, one["job_id"], state, f"{one['seconds']:,.1f} s")
    console.print(table)

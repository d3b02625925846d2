"""``flinknet worker``: a worker in the foreground, for a coordinator that runs elsewhere."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from flinknet import machine
from flinknet.cli.arguments import ConfigFile, Slots
from flinknet.cli.cluster_client import running_cluster
from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.control.hash_seed import SEED_VARIABLE
from flinknet.cluster.launch.own_program import own_program
from flinknet.config.loading import FILE_VARIABLE, load_settings, options

__all__ = ["worker"]

Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        "--cluster",
        metavar="HOST:PORT",
        help="Coordinator to join, or the name of its cluster.",
    ),
]
WorkerId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Id of the worker. Default: host name and a unique suffix."),
]


DataPort = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, metavar="PORT", help="Port for other workers; 0 takes a free port."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, metavar="PORT", help="Port of /metrics; 0 takes a free port."),
]


def worker(
    *,
    coordinator: Coordinator = None,
    worker_id: WorkerId = None,
    slots: Slots = None,
    data_port: DataPort = None,
    metrics_port: MetricsPort = None,
    config: ConfigFile = None,
) -> None:
    """Run a worker until Ctrl-C or SIGTERM, or until its coordinator tells it to stop.

    FLINKNET_CLUSTER_TOKEN is the cluster's token, unless the cluster is given by name. The default
    ports are cluster.data_port and cluster.metrics_port of the configuration. Exit status: 0 the
    worker was told to stop, 2 refused, 3 it lost its coordinator.
    """
    cluster = running_cluster(coordinator, config)
    given = {
        "cluster.slots_per_worker": slots,
        "cluster.data_port": data_port,
        "cluster.metrics_port": metrics_port,
    }
    settings = load_settings(config, os.environ, given).config.cluster
    name = worker_id or f"{os.uname().nodename}-{machine.token_hex(4)}"
    command = own_program(
        "flinknet.cluster.worker.worker",
        f"--coordinator={cluster.address}",
        f"--worker-id={name}",
        f"--data-port={settings.data_port}",
        f"--metrics-port={settings.metrics_port}",
    )
    environment = {
        **os.environ,
        TOKEN_VARIABLE: cluster.token,
        SEED_VARIABLE: str(settings.hash_seed),
        options()["cluster.slots_per_worker"].variable: str(settings.slots_per_worker),
    }
    if config is not None:
        environment[FILE_VARIABLE] = str(config)
    print(f"worker {name} joins the coordinator at {cluster.address}", file=sys.stderr, flush=True)
    # execve keeps the process, so signals and the exit status are the worker's.
    os.execve(command[0], command, environment)

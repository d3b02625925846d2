"""The coordinator process: ``python -m flinknet.cluster.coordinator``.

It serves the control plane (``application.py``) of one ``Coordinator``. The cluster token comes in
the environment, see ``credentials.py``. With ``--watch-parent`` the process belongs to a launcher,
exchanges events with it (``launcher_events.py``), and ends when the launcher does.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from flinknet import machine
from flinknet.cluster.control.credentials import TOKEN_VARIABLE, take_token
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.control.hash_seed import restart_with_seed
from flinknet.cluster.control.http_server import HttpServer
from flinknet.cluster.control.kept_output import KeptOutput
from flinknet.cluster.control.logs import configure_logging
from flinknet.cluster.control.parent_watch import watch_parent
from flinknet.cluster.control.stop_signals import ignore_stop_signals, when_told_to_stop
from flinknet.cluster.coordinator.application import control_plane
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.cluster.coordinator.jobs.job_store import JobStore
from flinknet.cluster.coordinator.launcher_events import LauncherEvents, announce
from flinknet.config import CheckpointingConfig, ClusterConfig
from flinknet.config.loading import load_settings
from flinknet.errors import CoordinatorSupersededError, FlinknetError, JobError
from flinknet.texts import text_of

__all__ = ["main", "serve"]

log = logging.getLogger("flinknet.coordinator")


async def serve(
    config: ClusterConfig,
    token: str,
    *,
    has_launcher: bool,
    owns_state: bool = False,
    checkpointing: CheckpointingConfig | None = None,
    output: KeptOutput | None = None,
    inherited: machine.Socket | None = None,
) -> None:
    """Serve the control plane until SIGTERM or SIGINT.

    ``owns_state`` means that the state directory is removed once the launcher is gone.
    ``inherited`` is the listening socket of a launcher, which knows its address already.
    """
    store = None
    if config.state_directory:
        store = JobStore(Path(config.state_directory), durable=not owns_state)
    coordinator = Coordinator(
        config,
        lambda lost: announce("worker_wanted", worker_id=lost),
        checkpointing,
        store,
        output,
        takes_back=not has_launcher,
    )
    stop = _StopRequest()
    when_told_to_stop(stop.hear)
    if has_launcher:
        loop, owned = asyncio.get_running_loop(), config.state_directory if owns_state else None
        launcher = LauncherEvents(coordinator, loop, owned)
        watch_parent(launcher.hear, launcher.ended)
    server = HttpServer(
        control_plane(coordinator, token),
        config,
        coordinator.one_was_held_up,
        coordinator.http_refusals,
    )
    try:
        await _serve_until(stop, coordinator, server, inherited)
    finally:
        # A superseded coordinator leaves the workers and jobs to its successor.
        if not coordinator.superseded.done():
            coordinator.close(stop.reason)
            await coordinator.wait_for_workers()
        await coordinator.finish_checkpoints()
        await server.close()
        if store is not None:
            store.close()
        # Logged last, because the launcher shows the last line of a coordinator that has ended.
        if not coordinator.superseded.done():
            log.info("the coordinator %s", stop.reason)
        ignore_stop_signals()


class _StopRequest:
    """The signal that tells the process to stop."""

    def __init__(self) -> None:
        self.reason = "stops"
        """Why the coordinator ends."""
        self.is_made = asyncio.Event()

    def hear(self, number: signal.Signals) -> None:
        """Handle a signal."""
        if self.is_made.is_set():
            # A second signal ends the process at once, without waiting for workers or checkpoints.
            # This is safe, since each file of the state directory is complete at any moment.
            os._exit(ExitStatus.STOPPED)
        self.reason = f"was told to stop by signal {number} ({number.name})"
        self.is_made.set()


async def _serve_until(
    stop: _StopRequest,
    coordinator: Coordinator,
    server: HttpServer,
    inherited: machine.Socket | None,
) -> None:
    """Serve requests until the process is told to stop.

    Raises CoordinatorSupersededError if another coordinator takes over.
    """
    config = coordinator.config
    address = await server.start(
        config.host,
        config.coordinator_port,
        "cluster.coordinator_port",
        config.advertised_host,
        inherited,
    )
    log.info("listening on %s", address)
    if inherited is None:
        announce("listening", address=address)
    waiting = asyncio.create_task(_announce_ready(coordinator))
    stopping = asyncio.create_task(stop.is_made.wait())
    await asyncio.wait((stopping, coordinator.superseded), return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, stopping):
        task.cancel()
    if coordinator.superseded.done():
        raise coordinator.superseded.result()


async def _announce_ready(coordinator: Coordinator) -> None:
    await coordinator.ready.wait()
    announce("ready")


def main() -> int:
    """Run a coordinator; return the exit status, see ``ExitStatus``."""
    parser = argparse.ArgumentParser(prog="python -m flinknet.cluster.coordinator")
    parser.add_argument("--config", type=Path, help="a TOML file, as deploy/cluster.toml")
    parser.add_argument("--watch-parent", action="store_true", help="end with the launcher")
    parser.add_argument(
        "--remove-state", action="store_true", help="the state directory ends with the launcher"
    )
    parser.add_argument("--listening", type=int, help="descriptor of a socket that listens already")
    options = parser.parse_args()
    try:
        config = load_settings(options.config, os.environ, {}).config
        token = take_token(config.cluster.token_file)
        # ``take_token`` has removed the token from the environment, which the new process inherits.
        restart_with_seed(config.cluster.hash_seed, {TOKEN_VARIABLE: token})
        output = configure_logging(config.cluster, "coordinator")
        # Other loggers of flinknet log only warnings, because ``log_level`` is for user code. No
        # user code runs in this process, so here the level applies to messages about jobs and
        # workers.
        logging.getLogger("flinknet.coordinator").setLevel(config.cluster.log_level.upper())
        asyncio.run(
            serve(
                config.cluster,
                token,
                has_launcher=options.watch_parent,
                owns_state=options.remove_state,
                checkpointing=config.checkpointing,
                output=output,
                inherited=None
                if options.listening is None
                else machine.take_over(options.listening),
            )
        )
    except CoordinatorSupersededError as error:
        print(f"coordinator: {text_of(error)}", file=sys.stderr)
        return ExitStatus.SUPERSEDED
    except FlinknetError as error:
        print(f"coordinator: {text_of(error)}", file=sys.stderr)
        return ExitStatus.FAILED if isinstance(error, JobError) else ExitStatus.REFUSED
    return ExitStatus.STOPPED

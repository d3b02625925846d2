"""The process of a persistent cluster: a ``Cluster`` that is detached from any terminal.

Theory of operation. ``daemon.py`` starts the supervisor in a new session. The supervisor inherits a
pipe and the lock of the cluster's directory, which it holds to its end. When coordinator and
workers are ready, it writes their address to the directory, reports it on the pipe as a line of
JSON, and waits for SIGTERM or SIGINT, or until the cluster is broken for good. The output of the
processes goes to two files, each of which is rotated when it is full.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from flinknet import machine
from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.launch.cluster import Cluster
from flinknet.cluster.launch.cluster_directory import ClusterDirectory, RunningCluster
from flinknet.cluster.launch.process_output import LAUNCHER
from flinknet.cluster.launch.registry import launcher_named
from flinknet.config import FlinknetConfig
from flinknet.config.loading import load_settings
from flinknet.errors import FlinknetError
from flinknet.texts import printable, text_of

__all__ = ["main", "supervise"]

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def supervise(
    directory: ClusterDirectory, config: FlinknetConfig, config_file: str, ready: int
) -> None:
    """Run a cluster until a signal ends it.

    Raises the error that prevented its start or broke it. A second signal kills the processes at
    once.
    """
    log = _LogFile(directory.log, config.cluster.log_file_bytes_max)
    printed = _LogFile(directory.output, config.cluster.log_file_bytes_max, with_time=False)
    task = asyncio.current_task()
    assert task is not None
    for number in _STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    # The end of the terminal must not end the cluster.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    directory.remove_running()
    try:
        async with Cluster(
            config,
            launcher_named(config.cluster.launcher),
            on_output=lambda process, line: log.write(f"{process} | {line}"),
            on_printed=printed.write,
        ) as cluster:
            pid = machine.process_id()
            running = RunningCluster(pid, cluster.address, cluster.page, config_file)
            directory.write_running(running)
            _tell(ready, address=running.address, page=running.page)
            await cluster.until_broken()
    except asyncio.CancelledError:
        log.write(f"{LAUNCHER} | the cluster has been stopped")
        directory.remove_running()
    except FlinknetError as error:
        log.write(f"{LAUNCHER} | {type(error).__name__}: {text_of(error)}")
        raise


class _LogFile:
    """A file of lines; a full one gets the suffix ``.1`` and replaces the previous one."""

    def __init__(self, path: Path, bytes_max: int, *, with_time: bool = True) -> None:
        self._handler = RotatingFileHandler(path, maxBytes=bytes_max, backupCount=1)
        form = "%(asctime)s %(message)s" if with_time else "%(message)s"
        self._handler.setFormatter(logging.Formatter(form))

    def write(self, line: str) -> None:
        """Write one line."""
        record = logging.LogRecord(LAUNCHER, logging.INFO, "", 0, printable(line), None, None)
        self._handler.handle(record)


def _tell(ready: int, **news: str) -> None:
    # The command that has started the cluster may have been killed meanwhile.
    with suppress(BrokenPipeError):
        os.write(ready, json.dumps(news).encode() + b"\n")
    os.close(ready)


def main() -> int:
    """Run a supervisor and return its exit status, see ``ExitStatus``."""
    parser = argparse.ArgumentParser(prog="flinknet supervisor")
    parser.add_argument("name")
    parser.add_argument("--lock", type=int, required=True, help="the descriptor of the lock")
    parser.add_argument("--ready", type=int, required=True, help="the descriptor of the pipe")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--slots", type=int)
    options = parser.parse_args()
    for descriptor in (options.lock, options.ready):
        os.set_inheritable(descriptor, False)
    directory = ClusterDirectory(options.name)
    flags = {"cluster.workers": options.workers, "cluster.slots_per_worker": options.slots}
    try:
        os.environ[TOKEN_VARIABLE] = directory.token()
        config = load_settings(options.config, os.environ, flags).config
        file = "" if options.config is None else str(options.config)
        asyncio.run(supervise(directory, config, file, options.ready))
    except FlinknetError as error:
        with suppress(OSError):  # it was closed when the cluster was ready
            _tell(options.ready, type=type(error).__name__, error=text_of(error))
        return ExitStatus.FAILED
    return ExitStatus.STOPPED

"""Starting and stopping the supervisor of a persistent cluster, for commands in a terminal.

The supervisor leads its own session, so that neither Ctrl-C nor the end of the terminal reaches it.
It inherits the lock of the cluster's directory from the starting command, so two commands cannot
both start a cluster of one name. It reports on a pipe when the cluster is ready. An end of the pipe
without a report means that the supervisor has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flinknet import machine
from flinknet.cluster.control.credentials import TOKEN_VARIABLE, given_token, token_is_given
from flinknet.cluster.launch.cluster_directory import ClusterDirectory
from flinknet.cluster.launch.own_program import own_program
from flinknet.config.loading import load_settings
from flinknet.errors import ConfigurationError, InsufficientNetworkBuffersError, JobError

__all__ = ["LAST_LINES", "Started", "start_cluster", "stop_cluster"]

_LOOK_S = 0.02
"""Seconds between two checks whether a supervisor has ended."""

_REFUSALS = {error.__name__ for error in (ConfigurationError, InsufficientNetworkBuffersError)}

LAST_LINES = 10
"""Number of log lines that explain an end."""


@dataclass(frozen=True, slots=True)
class Started:
    """A cluster that has just started."""

    address: str
    page: str


def start_cluster(
    directory: ClusterDirectory,
    config: Path | None = None,
    workers: int | None = None,
    slots: int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Started:
    """Start a persistent cluster, and return when it is ready.

    Raises ConfigurationError if a cluster of that name runs or the settings cannot work, and
    JobError if it does not come up. An interrupted start leaves nothing behind.
    """
    flags = {"cluster.workers": workers, "cluster.slots_per_worker": slots}
    config = None if config is None else config.absolute()
    token_file = load_settings(config, environ, flags).config.cluster.token_file
    lock = directory.lock()
    told, tell = os.pipe()
    try:
        directory.keep_token(given_token(token_file) if token_is_given(token_file) else None)
        arguments = [directory.name, f"--lock={lock}", f"--ready={tell}"]
        arguments += [] if config is None else [f"--config={config}"]
        arguments += [] if workers is None else [f"--workers={workers}"]
        arguments += [] if slots is None else [f"--slots={slots}"]
        log = os.open(directory.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(
                own_program("flinknet.cluster.launch.supervisor", *arguments),
                env={name: value for name, value in environ.items() if name != TOKEN_VARIABLE},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock, tell),
                start_new_session=True,
            )
        finally:
            os.close(log)
    except BaseException:
        os.close(told)
        raise
    finally:
        os.close(lock)
        os.close(tell)
    with os.fdopen(told) as pipe:
        return _started(directory, process, _heard(pipe.readline, process))


def _heard(read: Callable[[], str], process: subprocess.Popen[bytes]) -> str:
    try:
        return read()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _started(directory: ClusterDirectory, process: subprocess.Popen[bytes], line: str) -> Started:
    if not line:
        process.wait()
        last = "\n".join(directory.last_lines(LAST_LINES))
        raise JobError(f"the supervisor of cluster {directory.name} ended early:\n{last}")
    news = json.loads(line)
    if "error" not in news:
        process.returncode = 0  # the supervisor goes on, and nothing waits for it
        return Started(news["address"], news["page"])
    process.wait()
    kind = ConfigurationError if news["type"] in _REFUSALS else JobError
    raise kind(f"cluster {directory.name} cannot be started: {news['error']}")


def stop_cluster(directory: ClusterDirectory, timeout_s: float) -> None:
    """Stop a cluster, and return when all of its processes are gone.

    Raises ConfigurationError if it does not run, JobError if it has not stopped in that time.
    """
    running = directory.running()
    if not directory.is_locked():
        directory.remove_running()
        raise ConfigurationError(
            f"cluster {directory.name} does not run"
            + ("" if running is None else f": its supervisor (pid {running.pid}) has died")
        )
    if running is None:
        raise ConfigurationError(f"cluster {directory.name} is starting, or about to end")
    with suppress(ProcessLookupError):
        os.kill(running.pid, signal.SIGTERM)
    deadline = machine.monotonic() + timeout_s
    while directory.is_locked():
        if machine.monotonic() > deadline:
            raise JobError(
                f"cluster {directory.name} has not stopped within {timeout_s:.0f} s: see "
                f"{directory.log}, or kill its supervisor, process {running.pid}, which ends all "
                "of its processes"
            )
        machine.sleep(_LOOK_S)

"""The directory of a persistent cluster on this machine: its lock, token, address and logs.

Theory of operation. A cluster called NAME has ``$XDG_STATE_HOME/flinknet/clusters/NAME``, which
only its user may enter. Its supervisor holds a lock on a file there while it lives. The kernel
therefore tells whether the cluster runs, not a process id in a file. ``cluster.json`` has the
address. It is removed when the cluster is stopped. If it exists and the lock is free, the cluster
has died.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from flinknet.cluster.control.credentials import new_token
from flinknet.errors import ConfigurationError

__all__ = ["DEFAULT_NAME", "ClusterDirectory", "RunningCluster", "checked_name"]

DEFAULT_NAME = "default"
"""The name of the cluster for commands that name none."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TAIL_BYTES = 16 * 1024
"""Size of the end of a log that is searched for its last lines."""


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """The description of a cluster that its supervisor writes."""

    pid: int
    """Process id of the supervisor."""
    address: str
    """``"host:port"`` of the control plane."""
    page: str
    """The address of the page, without the token."""
    config: str
    """The configuration file that it was started with; empty for none."""


class ClusterDirectory:
    """The directory of the cluster ``name``, which need not exist."""

    def __init__(self, name: str, environ: Mapping[str, str] = os.environ) -> None:
        self.name = checked_name(name)
        home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "~")) / ".local/state"
        self.path = Path(home).expanduser() / "flinknet" / "clusters" / self.name
        self.log = self.path / "cluster.log"
        """The file for the processes' standard error."""
        self.output = self.path / "cluster.out"
        """The file for the output of user code in the workers."""
        self._lock = self.path / "supervisor.lock"
        self._token = self.path / "token"
        self._running = self.path / "cluster.json"

    def lock(self) -> int:
        """Lock the directory, which is made if necessary, and return the lock's descriptor.

        The lock is held until the last copy of the descriptor is closed. Raises ConfigurationError
        if the cluster runs.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"the directory {self.path} of cluster {self.name} cannot be used: "
                f"{error.strerror}; set the environment variable XDG_STATE_HOME to another one"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise ConfigurationError(
                f"cluster {self.name} is already running{self._where()}: stop it with `flinknet "
                f"cluster stop {self.name}`, or choose another name"
            ) from None
        return descriptor

    def is_locked(self) -> bool:
        """Return whether a supervisor lives."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def running(self) -> RunningCluster | None:
        """Return the supervisor's description of the cluster, even if it has died.

        Returns None if the cluster was stopped, or never started.
        """
        with suppress(OSError, ValueError, TypeError):
            return RunningCluster(**json.loads(self._running.read_text()))
        return None

    def write_running(self, running: RunningCluster) -> None:
        """Write the description of the cluster atomically."""
        new = self._running.with_suffix(".new")
        new.write_text(json.dumps(asdict(running)))
        new.replace(self._running)

    def remove_running(self) -> None:
        """Remove the description of a cluster that has been stopped."""
        self._running.unlink(missing_ok=True)

    def token(self) -> str:
        """Return the cluster's token; ConfigurationError if there is none."""
        try:
            return self._token.read_text()
        except OSError as error:
            raise ConfigurationError(
                f"the token of cluster {self.name} cannot be read: {error.strerror}: {self._token}"
            ) from error

    def keep_token(self, given: str | None) -> str:
        """Store and return the given token, or else the stored one, or else a new one."""
        if given is None and self._token.exists():
            return self.token()
        token = given or new_token()
        self._token.unlink(missing_ok=True)
        descriptor = os.open(self._token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token)
        return token

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines of the log."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-count:]
        return []

    def _where(self) -> str:
        running = self.running()
        return "" if running is None else f" at {running.address} (pid {running.pid})"


def checked_name(name: str) -> str:
    """Return a cluster's name; ConfigurationError if it is invalid."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name[:80]!r} is not the name of a cluster: use at most 64 letters, digits, dots, "
            "hyphens and underscores, with a letter or a digit first"
        )
    return name

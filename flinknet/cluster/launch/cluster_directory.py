"""The directory of a cluster of this machine that stays: its lock, token, address and logs.

Theory of operation. A cluster called NAME has ``$XDG_STATE_HOME/flinknet/clusters/NAME``, which
only its user may enter. The process that supervises it holds a lock on a file there for as long as
it lives, so the kernel, and not a number in a file, says whether the cluster runs. ``cluster.json``
says where it listens. It is removed when the cluster is stopped; if it is there and the lock is not
held, the cluster has died.
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
"""The cluster that is meant where a command names none."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TAIL_BYTES = 16 * 1024
"""Of the end of a log, in which its last lines are looked for."""


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """What a supervisor writes down of its cluster."""

    pid: int
    """The supervisor's."""
    address: str
    """``"host:port"`` of the control plane."""
    page: str
    """The address of the page, without the token."""
    config: str
    """The configuration file that it was started with; empty for none."""


class ClusterDirectory:
    """The directory of the cluster ``name``, which need not be there."""

    def __init__(self, name: str, environ: Mapping[str, str] = os.environ) -> None:
        self.name = checked_name(name)
        home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "~")) / ".local/state"
        self.path = Path(home).expanduser() / "flinknet" / "clusters" / self.name
        self.log = self.path / "cluster.log"
        """What its processes say on standard error."""
        self.output = self.path / "cluster.out"
        """What user code prints in its workers."""
        self._lock = self.path / "supervisor.lock"
        self._token = self.path / "token"
        self._running = self.path / "cluster.json"

    def lock(self) -> int:
        """Make the directory if it is not there, and return the descriptor of its lock, which is
        held until the last copy of it is closed; ConfigurationError if the cluster runs."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"the directory {self.path} of cluster {self.name} cannot be used: "
                f"{error.strerror}; name another place in the environment variable XDG_STATE_HOME"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise ConfigurationError(
                f"cluster {self.name} runs already{self._where()}: stop it with `flinknet cluster "
                f"stop {self.name}`, or choose another name"
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
        """Return what its supervisor has written down, dead or alive; None if it has stopped, or
        never was."""
        with suppress(OSError, ValueError, TypeError):
            return RunningCluster(**json.loads(self._running.read_text()))
        return None

    def write_running(self, running: RunningCluster) -> None:
        """Write down where the cluster is, at once or not at all."""
        new = self._running.with_suffix(".new")
        new.write_text(json.dumps(asdict(running)))
        new.replace(self._running)

    def remove_running(self) -> None:
        """The cluster has been stopped."""
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
        """Keep the token that is given, or that which is there, or a new one; return it."""
        if given is None and self._token.exists():
            return self.token()
        token = given or new_token()
        self._token.unlink(missing_ok=True)
        descriptor = os.open(self._token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token)
        return token

    def last_lines(self, count: int) -> list[str]:
        """Return the end of the log."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-count:]
        return []

    def _where(self) -> str:
        running = self.running()
        return "" if running is None else f" at {running.address} (pid {running.pid})"


def checked_name(name: str) -> str:
    """Return the name of a cluster; ConfigurationError if it is none."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name[:80]!r} is no name of a cluster: choose letters, digits, dots, hyphens and "
            "underscores, 64 at most, a letter or a digit first"
        )
    return name

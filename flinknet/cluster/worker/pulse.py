"""The pulse of a worker: it says that the worker lives while user code holds up its event loop.

Theory of operation. A worker's event loop sends heartbeats. User code may hold that loop up for
minutes: one record, an import, a model that is loaded, a garbage collection. It may hold the
interpreter lock as well, so that no thread of the worker could send them. So a process of its own
watches the worker (``pulse_process.py``).

The event loop writes the time of its last turn into a page of memory that both processes map. While
that time is recent the pulse process is silent. When it is not, that process looks at the worker's
process, and tells the coordinator over HTTP that it is there. A process that is stopped or gone has
no pulse. The coordinator counts it as lost after ``cluster.heartbeat_timeout_ms``.

The pulse process is no child of the worker, because user code might wait for it: it forks once, and
its parent ends. It belongs to the worker's process group, and ends when the worker does.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from flinknet import machine
from flinknet.cluster.control.bare_script import bare_script
from flinknet.cluster.worker import pulse_process
from flinknet.config import TlsConfig
from flinknet.net.address import split_address

__all__ = ["Pulse"]

log = logging.getLogger("flinknet.worker")


class Pulse:
    """A worker's end: call ``start`` before any user code runs, then ``beat`` each interval."""

    def __init__(
        self,
        coordinator: str,
        worker_id: str,
        headers: Mapping[str, str],
        interval_s: float,
        tls: TlsConfig,
    ) -> None:
        """``coordinator`` is ``"host:port"``, and ``headers`` are those of a request to it."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        self._file.truncate(pulse_process.TIME.size)
        self._page = mmap.mmap(self._file.fileno(), pulse_process.TIME.size)
        lines = [
            f"PUT /api/v1/workers/{worker_id}/pulse HTTP/1.1",
            f"Host: {coordinator}",
            "Content-Length: 0",
            "Connection: close",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._order = {
            "pid": os.getpid(),
            "page": self._file.fileno(),
            "interval_s": interval_s,
            "coordinator": split_address(coordinator),
            "tls": _order_of(tls, split_address(coordinator)[0]),
            "request": "".join(f"{line}\r\n" for line in [*lines, ""]),
        }

    def start(self) -> None:
        """Start the process; if that fails, a warning says so, and the worker has its heartbeats
        alone."""
        self.beat()
        try:
            subprocess.run(
                bare_script(pulse_process),
                input=json.dumps(self._order).encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[self._file.fileno()],
                check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or b""
            log.warning(
                "no process could be started that speaks for this worker while user code holds it "
                "up, so the worker may be counted as lost then: %s %s",
                error,
                said.decode(errors="replace"),
            )

    def beat(self) -> None:
        """Note that the event loop has turned."""
        pulse_process.TIME.pack_into(self._page, 0, machine.monotonic())

    def close(self) -> None:
        """Let go of the page; idempotent. The process ends with this one."""
        self._page.close()
        self._file.close()


def _order_of(tls: TlsConfig, host: str) -> dict[str, object] | None:
    """Return what the process needs to know for a connection over TLS."""
    if not tls.is_on:
        return None
    return {
        "certificate": str(Path(tls.certificate).absolute()),
        "private_key": str(Path(tls.private_key).absolute()),
        "authority": str(Path(tls.authority).absolute()),
        "pinned": sorted(tls.fingerprints),
        "name": tls.coordinator_name or host,
    }

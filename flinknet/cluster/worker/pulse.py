"""The pulse of a worker: a sign of life while user code blocks its event loop.

Theory of operation. The event loop of a worker sends heartbeats. User code may block that loop for
minutes: with one record, an import, a model that is loaded, or a garbage collection. It may also
hold the interpreter lock, so that no thread of the worker could send them. A separate process
therefore watches the worker (``pulse_process.py``).

The event loop writes the time of its last turn into a memory page that both processes map. The
pulse process is silent while that time is recent. Otherwise it checks the worker's process, and
tells the coordinator over HTTP that the worker is alive. A stopped or ended process has no pulse,
so the coordinator counts it as lost after ``cluster.heartbeat_timeout_ms``.

The pulse process is no child of the worker, because user code might wait for children. It forks
once, and its parent ends. It stays in the worker's process group, and ends when the worker does.
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
    """The worker's end of the pulse.

    Call ``start`` before any user code runs, then ``beat`` in each interval.
    """

    def __init__(
        self,
        coordinator: str,
        worker_id: str,
        headers: Mapping[str, str],
        interval_s: float,
        tls: TlsConfig,
    ) -> None:
        """``coordinator`` is ``"host:port"``; ``headers`` go into each request to it."""
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
        """Start the pulse process; log a warning if that fails.

        The worker then has only its heartbeats.
        """
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
                "the process that sends heartbeats while user code blocks this worker could not be "
                "started, so a blocked worker may be counted as lost: %s %s",
                error,
                said.decode(errors="replace"),
            )

    def beat(self) -> None:
        """Note that the event loop has turned."""
        pulse_process.TIME.pack_into(self._page, 0, machine.monotonic())

    def close(self) -> None:
        """Release the page; idempotent. The pulse process ends when this process does."""
        self._page.close()
        self._file.close()


def _order_of(tls: TlsConfig, host: str) -> dict[str, object] | None:
    """Return the settings that the pulse process needs for TLS; None without TLS."""
    if not tls.is_on:
        return None
    return {
        "certificate": str(Path(tls.certificate).absolute()),
        "private_key": str(Path(tls.private_key).absolute()),
        "authority": str(Path(tls.authority).absolute()),
        "pinned": sorted(tls.fingerprints),
        "name": tls.coordinator_name or host,
    }

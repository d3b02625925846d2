"""The process that speaks for a worker while the worker cannot speak for itself: ``pulse.py``.

It runs as a script. It imports little, so that it starts in a few hundredths of a second and takes
some 10 MB. ``watch_as_ordered`` reads an order as JSON from standard input::

    {"pid": 17, "page": 5, "interval_s": 1.0,
     "coordinator": ["127.0.0.1", 8080], "tls": null,
     "request": "PUT /... HTTP/1.1\\r\\n...\\r\\n\\r\\n"}

``tls`` has the files and the coordinator's name if the cluster uses TLS. ``page`` is the descriptor
of the file to which the worker writes the time when its event loop turns.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

__all__ = ["TIME", "WatchedProcess", "watch_as_ordered"]

TIME = struct.Struct("d")
"""Layout of the page: the time of the event loop's last turn, on the machine's monotonic clock."""

_MISSED_INTERVALS = 2
"""Number of intervals without a turn after which this process speaks for the worker."""

_ANSWER_TIMEOUT_S = 5.0
"""Seconds for the coordinator to accept and answer; far less than any heartbeat timeout."""

_STOPPED = "TtZX"
"""States, as Linux and ps name them, of a process that is stopped or gone."""


class WatchedProcess:
    """Another process of this machine."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._descriptor: int | None = None
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):  # a kernel without that call, or the process has ended
                self._descriptor = os.pidfd_open(pid)

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the process; return whether it ended within the time."""
        if self._descriptor is not None:
            return bool(select.select([self._descriptor], [], [], seconds)[0])
        time.sleep(seconds)
        return self._state() in ("", "Z", "X")

    def runs(self) -> bool:
        """Return whether the process exists and is not stopped."""
        state = self._state()
        return state != "" and state not in _STOPPED

    def _state(self) -> str:
        """Return the letter of the process's state, or an empty string if there is none."""
        with suppress(OSError):
            if os.path.exists("/proc/self/stat"):  # noqa: PTH110 - pathlib takes long to import
                with open(f"/proc/{self._pid}/stat", "rb") as file:  # noqa: PTH123
                    # The program's name precedes it in parentheses, and may itself contain some.
                    return file.read().rpartition(b")")[2].split()[0].decode()
            with os.popen(f"ps -o state= -p {self._pid}") as shown:
                return shown.read().strip()[:1]
        return ""


def watch_as_ordered() -> None:
    """Read the order, detach from the process that gave it, and watch until the worker ends."""
    order = json.load(sys.stdin)
    with mmap.mmap(order["page"], TIME.size) as page:
        # User code may wait for children of the worker, so this process must not be one.
        if os.fork():
            os._exit(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the worker decides when both end
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nothing, standard)
        _watch(order, page)


def _watch(order: dict[str, Any], page: mmap.mmap) -> None:
    worker = WatchedProcess(order["pid"])
    interval_s = order["interval_s"]
    while not worker.ends_within(interval_s):
        held_up_s = time.monotonic() - TIME.unpack_from(page)[0]
        if held_up_s >= _MISSED_INTERVALS * interval_s and worker.runs():
            with suppress(OSError):  # the next one may get through
                _send(order["coordinator"], order["tls"], order["request"].encode())


def _send(coordinator: list[Any], tls: dict[str, Any] | None, request: bytes) -> None:
    with (
        socket.create_connection((coordinator[0], coordinator[1]), _ANSWER_TIMEOUT_S) as plain,
        plain if tls is None else _secured(plain, tls) as connection,
    ):
        connection.sendall(request)
        # Ignore the answer; the coordinator closes the connection after it.
        while connection.recv(4096):
            pass


def _secured(plain: socket.socket, tls: dict[str, Any]) -> socket.socket:
    """Return the connection over TLS; OSError if the coordinator is not the right one."""
    # Imported only for TLS, because these take as long as all other imports together.
    import hashlib
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cafile=tls["authority"])
    context.load_cert_chain(tls["certificate"], tls["private_key"])
    connection = context.wrap_socket(plain, server_hostname=tls["name"])
    shown = connection.getpeercert(binary_form=True) or b""
    if tls["pinned"] and hashlib.sha256(shown).hexdigest() not in tls["pinned"]:
        connection.close()
        raise ConnectionError("the coordinator's certificate is not a pinned one")
    return connection


if __name__ == "__main__":
    watch_as_ordered()

"""Free ports for tests that must know a port before they listen on it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle

__all__ = ["free_port"]


def free_port() -> int:
    """Return a port that is free, and that no other test of this run will take.

    The ports are below the ephemeral range (`ip_local_port_range` begins at 32,768). The system may
    give an ephemeral port to any test that listens on port 0. Each process of pytest-xdist has a
    range of its own.
    """
    while True:
        port = next(_own_ports)
        with socket.socket() as bare, suppress(OSError):
            # Servers set this, too: a port with connections in TIME_WAIT is free for them.
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bare.bind(("127.0.0.1", port))
            return port


def _ports_of_worker(worker: str) -> Iterator[int]:
    """Cycle through the 2,000 ports of a pytest-xdist process; the pid sets the start."""
    first = 12_000 + int(worker.removeprefix("gw") or 0) % 10 * 2_000
    return cycle([*range(first + os.getpid() % 2_000, first + 2_000), *range(first, first + 2_000)])


_own_ports = _ports_of_worker(os.environ.get("PYTEST_XDIST_WORKER", ""))

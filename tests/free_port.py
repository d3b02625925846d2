"""A port for a test that has to know it before anybody listens there."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle

__all__ = ["free_port"]


def free_port() -> int:
    """A port on which nobody listens, nor will but who asked for it.

    It is none of those that the system hands out (`ip_local_port_range` begins at 32,768): such a
    one is somebody else's as soon as another test listens wherever there is room. The tests that
    run beside this one take theirs elsewhere.
    """
    while True:
        port = next(_own_ports)
        with socket.socket() as bare, suppress(OSError):
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bare.bind(("127.0.0.1", port))
            return port


def _ports_of_worker(worker: str) -> Iterator[int]:
    """Those of one of pytest-xdist's processes, over and over, from anywhere on."""
    first = 12_000 + int(worker.removeprefix("gw") or 0) % 10 * 2_000
    return cycle([*range(first + os.getpid() % 2_000, first + 2_000), *range(first, first + 2_000)])


_own_ports = _ports_of_worker(os.environ.get("PYTEST_XDIST_WORKER", ""))

"""The sockets over tcp of the pyzmq systems, with a blocking or an asyncio context.

A context and its socket are closed together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

from bench.harness.case import Case

if TYPE_CHECKING:
    from zmq.sugar.context import Context
    from zmq.sugar.socket import Socket

__all__ = ["address_of", "bound", "connected", "high_water_mark", "is_large", "version"]

Role = Literal["PUSH", "PULL", "PAIR"]

ADDRESS = "tcp://127.0.0.1:*"
DEFAULT_HIGH_WATER_MARK = 1000
QUEUE_BYTES_MAX = 64 << 20
"""Limit of a queue; 1,000 messages of 1 MiB would take more memory than any other system has."""


@contextmanager
def bound(context: Context, role: Role, hwm: int = DEFAULT_HIGH_WATER_MARK) -> Iterator[Any]:
    """Yield a socket that is bound to a free port."""
    with _opened(context, role, hwm) as socket:
        socket.bind(ADDRESS)
        yield socket


@contextmanager
def connected(
    context: Context, role: Role, address: str, hwm: int = DEFAULT_HIGH_WATER_MARK
) -> Iterator[Any]:
    """Yield a socket that is connected to ``address``."""
    with _opened(context, role, hwm) as socket:
        socket.connect(address)
        yield socket


@contextmanager
def _opened(context: Context, role: Role, hwm: int) -> Iterator[Any]:
    from zmq.constants import SocketType

    with context, context.socket(SocketType[role]) as socket:
        socket.set_hwm(hwm)
        yield socket


def address_of(bound_socket: Socket) -> str:
    """Return the address of a bound socket."""
    from zmq.constants import LAST_ENDPOINT

    address: str = bound_socket.getsockopt_string(LAST_ENDPOINT)
    return address


def is_large(case: Case) -> bool:
    """Return whether the records are too large to be worth copying."""
    return case.name == "bytes-1m"


def high_water_mark(case: Case) -> int:
    """Return the maximum number of messages in a queue: the default, but at most 64 MiB."""
    return QUEUE_BYTES_MAX >> 20 if is_large(case) else DEFAULT_HIGH_WATER_MARK


def version() -> str:
    """Return the installed version. Raises PackageNotFoundError."""
    return metadata.version("pyzmq")

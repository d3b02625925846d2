"""What the pyzmq systems share: sockets over tcp, of a blocking context or of an asyncio one.

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
"""A queue of 1,000 messages of 1 MiB would be more memory than any other system is given."""


@contextmanager
def bound(context: Context, role: Role, hwm: int = DEFAULT_HIGH_WATER_MARK) -> Iterator[Any]:
    """Yield a socket that is bound to a port of its own."""
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
    """Return where a bound socket can be reached."""
    from zmq.constants import LAST_ENDPOINT

    address: str = bound_socket.getsockopt_string(LAST_ENDPOINT)
    return address


def is_large(case: Case) -> bool:
    """Return whether the records are better not copied."""
    return case.name == "bytes-1m"


def high_water_mark(case: Case) -> int:
    """Return how many messages a queue may hold: the default, but no more than 64 MiB."""
    return QUEUE_BYTES_MAX >> 20 if is_large(case) else DEFAULT_HIGH_WATER_MARK


def version() -> str:
    """Return what is installed. Raises PackageNotFoundError."""
    return metadata.version("pyzmq")

"""The machine under this process: clocks, random numbers, identifiers, threads, sockets.

Theory of operation. All access to these goes through this module. Import contracts and a test keep
``time``, ``random``, ``secrets``, ``uuid``, ``threading``, ``socket`` and ``os.urandom`` out of all
other modules, with a few justified exceptions. The module adds nothing: nearly all of its names are
aliases for functions and classes of the standard library, and a call costs as much as theirs.

A simulation replaces the whole module. It puts its own into ``sys.modules`` under this name before
it imports the package (``tests/sim/machine.py``). So names may be bound at import, in default
arguments and in constants, and no code needs to know whether it runs in a simulation. The event
loop is the other access to the machine: it has the timers, the connections of the data plane and
the executor of blocking calls. A simulation brings its own loop.

``flinknet.net.machine`` checks that the machine meets the needs of an environment.
"""

from __future__ import annotations

import os
import random as _random
import secrets as _secrets
import socket as _socket
import threading as _threading
import time as _time
import uuid as _uuid
from queue import SimpleQueue
from typing import Protocol

__all__ = [
    "Condition",
    "Event",
    "Lock",
    "RLock",
    "Random",
    "SimpleQueue",
    "Socket",
    "Thread",
    "ThreadLocal",
    "active_threads",
    "address_towards",
    "all_threads",
    "choice",
    "clock_gettime",
    "current_thread",
    "listen",
    "main_thread",
    "monotonic",
    "monotonic_ns",
    "open_again",
    "perf_counter",
    "process_id",
    "process_time_ns",
    "random_bytes",
    "randrange",
    "sleep",
    "thread_id",
    "thread_time",
    "token_hex",
    "token_urlsafe",
    "uniform",
    "unique_id",
    "wall_time",
    "wall_time_ns",
]

# Clocks that are never set, in seconds and nanoseconds.
monotonic = _time.monotonic
monotonic_ns = _time.monotonic_ns
perf_counter = _time.perf_counter

# Time since 1970, by a clock that may be set.
wall_time = _time.time
wall_time_ns = _time.time_ns

# Processor time of this process, of this thread, and of a clock by its number.
process_time_ns = _time.process_time_ns
thread_time = _time.thread_time
clock_gettime = _time.clock_gettime

sleep = _time.sleep

# Randomness: unpredictable bytes and texts, and predictable numbers.
random_bytes = os.urandom
token_hex = _secrets.token_hex
token_urlsafe = _secrets.token_urlsafe
uniform = _random.uniform
randrange = _random.randrange
choice = _random.choice
Random = _random.Random


def unique_id() -> str:
    """Return 32 hexadecimal digits that no other call returns, in any process."""
    return _uuid.uuid4().hex


process_id = os.getpid

# Threads and their synchronisation.
Thread = _threading.Thread
ThreadLocal = _threading.local
Lock = _threading.Lock
RLock = _threading.RLock
Event = _threading.Event
Condition = _threading.Condition
thread_id = _threading.get_ident
current_thread = _threading.current_thread
main_thread = _threading.main_thread
all_threads = _threading.enumerate
active_threads = _threading.active_count

# Sockets outside of an event loop.
Socket = _socket.socket


def listen(host: str, port: int) -> Socket:
    """Return a listening socket. Raises OSError if the port is taken."""
    family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
    return _socket.create_server((host, port), family=family)


def take_over(descriptor: int) -> Socket:
    """Return the socket of an inherited descriptor, which child processes do not inherit."""
    os.set_inheritable(descriptor, False)
    return Socket(fileno=descriptor)


def address_towards(host: str, port: int) -> str:
    """Return the address of this machine on the route to another one, without sending anything.

    Raises OSError if there is no route.
    """
    [(family, _, _, _, address), *_] = _socket.getaddrinfo(host, port, type=_socket.SOCK_DGRAM)
    with Socket(family, _socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        found: str = probe.getsockname()[0]
        return found


class _Open(Protocol):
    def fileno(self) -> int: ...


def open_again(opened: _Open) -> Socket:
    """Return a second object for an open socket, with its own descriptor, to be closed."""
    return Socket(fileno=os.dup(opened.fileno()))

"""A relay: passes bytes on with a fixed delay, in order, at any bandwidth.

Theory of operation. For each direction of a connection, a *receiving* thread notes when each piece
arrives, and a *sending* thread sleeps until the piece is due and sends it. The queue in between is
bounded only so that a sender without flow control cannot fill the memory. The relay uses threads
with blocking sockets, because an event loop's timers have a resolution of a millisecond.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Queue
from statistics import median
from threading import Thread
from time import perf_counter, sleep
from typing import NamedTuple

__all__ = ["measure_round_trip", "open_relay"]

HOST = "127.0.0.1"
PIECE_BYTES_MAX = 128 << 10
PIECES_MAX = 512
"""Maximum number of queued pieces in one direction: 64 MiB, many times the largest window here."""

PINGS = 20


class Piece(NamedTuple):
    """Some bytes, or none at the end of the stream, and the time at which to pass them on."""

    due: float
    data: bytes


@contextmanager
def open_relay(target: str, delay_s: float) -> Iterator[str]:
    """Yield the address of a relay to ``target`` with a delay each way.

    The end of the block cuts open connections.
    """
    relay = _Relay(target, delay_s)
    try:
        yield _address(relay.listener)
    finally:
        relay.close()


def measure_round_trip(delay_s: float) -> float:
    """Return the seconds of a round trip of one byte through a relay with this delay."""
    with socket.create_server((HOST, 0)) as listener:
        echoing = Thread(target=_echo, args=(listener,))
        echoing.start()
        try:
            with open_relay(_address(listener), delay_s) as address, _connect(address) as near:
                return median(_ping(near) for _ in range(PINGS))
        finally:
            echoing.join()


def _ping(connection: socket.socket) -> float:
    begun = perf_counter()
    connection.sendall(b".")
    connection.recv(1)
    return perf_counter() - begun


def _echo(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while data := connection.recv(1):
            connection.sendall(data)


class _Relay:
    """The sockets of a relay and the threads that serve them."""

    def __init__(self, target: str, delay_s: float) -> None:
        self.listener = socket.create_server((HOST, 0))
        self._target = target
        self._delay_s = delay_s
        self._sockets: list[socket.socket] = []
        self._threads: list[Thread] = []
        self._accepting = Thread(target=self._accept)
        self._accepting.start()

    def close(self) -> None:
        """Stop accepting, cut every connection, and wait for the threads."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self.listener.close()
        for each in self._sockets:
            with suppress(OSError):  # the peer may have cut it already
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _start(self, serve: Callable[..., None], *arguments: object) -> None:
        thread = Thread(target=serve, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        """Connect every accepted connection to the target, and start both directions."""
        with suppress(OSError):  # the listener is shut down
            while True:
                near, _ = self.listener.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(near)
                far = _connect(self._target)
                self._sockets.append(far)
                for source, sink in ((near, far), (far, near)):
                    pieces: Queue[Piece] = Queue(PIECES_MAX)
                    self._start(_receive, source, pieces, self._delay_s)
                    self._start(_send, sink, pieces)


def _receive(source: socket.socket, pieces: Queue[Piece], delay_s: float) -> None:
    data = b"."
    while data:
        try:
            data = source.recv(PIECE_BYTES_MAX)
        except OSError:  # cut off: the other side sees the end
            data = b""
        pieces.put(Piece(perf_counter() + delay_s, data))


def _send(sink: socket.socket, pieces: Queue[Piece]) -> None:
    """Send until the end of the stream; drop pieces once the sink has gone."""
    gone = False
    data = b"."
    while data:
        due, data = pieces.get()
        wait_s = due - perf_counter()
        if wait_s > 0:
            sleep(wait_s)
        try:
            if not gone and data:
                sink.sendall(data)
            elif not gone:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            gone = True


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection

"""An event loop on virtual time, with connections in memory.

The loop never sleeps: when nothing is ready it sets its clock to the next timer. Without a timer,
the simulation is stuck. Blocking calls, which a real loop hands to its executor, run in a turn of
the loop.

A connection is two transports with a delay in each direction. A transport takes ``PIPE_BYTES``
while its peer does not read. The hash of a task or future is its number, so that a set of them has
the same order in each run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, Self, cast

from tests.sim.machine import StuckError

__all__ = ["LATENCY_S", "Line", "SimLoop"]

LATENCY_S = 0.001
"""Latency from one end of a connection to the other."""

PIPE_BYTES = 64 * 1024
READ_BYTES = 16 * 1024


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of one simulation."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = self
        self._numbers = count(1)
        self._ports = count(40_001)
        self._servers: dict[tuple[str, int], SimServer] = {}
        self.set_task_factory(self._make_task)

    # -- time

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        """Advance the clock to the next timer, in place of waiting for descriptors."""
        if timeout is None:
            raise StuckError("nothing is ready, and no timer is set")
        if timeout > 0:
            self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]
        return []

    def _process_events(self, events: list[Any]) -> None:
        """Do nothing: there are no descriptors."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps, so no other thread has to wake it."""

    # -- tasks, futures and executors

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), self)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., Any], *arguments: Any
    ) -> Any:
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = function(*arguments)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(run)
        return future

    def _make_task(self, loop: Any, coro: Any, **options: Any) -> _Task:
        return _Task(next(self._numbers), coro, self, options)

    # -- connections

    async def create_server(  # type: ignore[override]
        self, factory: Callable[[], Any], host: str, port: int = 0, **options: Any
    ) -> SimServer:
        address = host, port or next(self._ports)
        server = self._servers[address] = SimServer(self, factory, address)
        return server

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], Any], host: str, port: int, **options: Any
    ) -> tuple[SimTransport, Any]:
        await asyncio.sleep(LATENCY_S)
        server = self._servers.get((host, port))
        if server is None:
            raise ConnectionRefusedError(f"nothing listens on {host}:{port}")
        own = host, next(self._ports)
        near, far = SimTransport(self, (host, port)), SimTransport(self, own)
        near.peer, far.peer = far, near
        far.begin(server.factory())
        protocol = factory()
        near.begin(protocol)
        return near, protocol

    def forget(self, server: SimServer) -> None:
        """Stop listening on the server's address."""
        self._servers.pop(server.address, None)


class SimServer:
    """A server, which is also its own listening socket."""

    def __init__(self, loop: SimLoop, factory: Callable[[], Any], address: tuple[str, int]) -> None:
        self._loop = loop
        self.factory = factory
        self.address = address
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return self.address

    async def start_serving(self) -> None:
        """Do nothing: the server accepts from its creation."""

    def listen(self, backlog: int) -> None:
        """Do nothing: every connection is accepted at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: the address stays in use."""

    def close(self) -> None:
        self._loop.forget(self)

    async def wait_closed(self) -> None:
        """Return at once: connections end independently of the server."""


class Line:
    """One direction of a connection: data arrives after the latency, in order.

    Timers that are due at the same time fire in any order, so each delivers the oldest data.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, latency_s: float = LATENCY_S) -> None:
        self._loop = loop
        self._latency_s = latency_s
        self._sent: deque[Callable[[], object]] = deque()

    def send(self, arrive: Callable[..., object], *arguments: object) -> None:
        self._sent.append(partial(arrive, *arguments))
        self._loop.call_later(self._latency_s, self._arrive)

    def _arrive(self) -> None:
        self._sent.popleft()()


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    peer: SimTransport

    def __init__(self, loop: SimLoop, peername: tuple[str, int]) -> None:
        super().__init__({"peername": peername})
        self._loop = loop
        self._protocol: Any = None
        self._written = bytearray()
        """Data for which the peer's pipe has no room."""
        self._arrived = bytearray()
        """Data that the protocol has not read."""
        self._in_flight = 0
        self._line = Line(loop)
        self._reads = True
        self._is_delivering = False
        self._is_closing = self._is_lost = False
        self._eof_written = self._eof_sent = self._eof_arrived = False
        self._high = 64 * 1024
        self._is_paused = False

    def begin(self, protocol: Any) -> None:
        self._protocol = protocol
        self._loop.call_soon(protocol.connection_made, self)

    # -- writing

    def write(self, data: Any) -> None:
        if self._is_closing or self._eof_written:
            return
        self._written += data
        self._send()
        if len(self._written) > self._high and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def writelines(self, pieces: Iterable[Any]) -> None:
        self.write(b"".join(pieces))

    def write_eof(self) -> None:
        self._eof_written = True
        self._send()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return len(self._written)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        if len(self._written) > self._high and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def _send(self) -> None:
        peer = self.peer
        # Data in flight needs room at the peer, too.
        room = PIPE_BYTES - self._in_flight - len(peer._arrived)
        piece = bytes(self._written[: max(0, room)])
        if piece:
            del self._written[: len(piece)]
            self._in_flight += len(piece)
            self._line.send(self._arrive, piece)
        if self._eof_written and not self._written and not self._eof_sent:
            self._eof_sent = True
            self._line.send(peer._take_eof)
        if self._is_closing and not self._written and not self._is_lost:
            self._loop.call_soon(self._lose, None)
        if self._is_paused and not self._written:
            self._is_paused = False
            self._loop.call_soon(self._protocol.resume_writing)

    def _arrive(self, piece: bytes) -> None:
        self._in_flight -= len(piece)
        if self.peer._is_lost:
            # A closed socket answers data with RST.
            self.peer._line.send(self._reset)
            return
        self.peer._arrived += piece
        self.peer._deliver_soon()

    # -- reading

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._deliver_soon()

    def is_reading(self) -> bool:
        return self._reads

    def _deliver_soon(self) -> None:
        if not self._is_delivering:
            self._is_delivering = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_delivering = False
        if not self._reads or self._is_lost or self._is_closing:
            return
        if self._arrived:
            buffer = memoryview(self._protocol.get_buffer(-1)).cast("B")
            size = min(len(buffer), len(self._arrived), READ_BYTES)
            buffer[:size] = self._arrived[:size]
            del buffer
            del self._arrived[:size]
            self._protocol.buffer_updated(size)
            self.peer._send()
            self._deliver_soon()
        elif self._eof_arrived:
            self._eof_arrived = False
            if not self._protocol.eof_received():
                self.close()

    def _take_eof(self) -> None:
        self._eof_arrived = True
        self._deliver_soon()

    # -- the end

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast("asyncio.BaseProtocol", self._protocol)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send()

    def abort(self) -> None:
        self._is_closing = True
        self._written.clear()
        if not self._is_lost:
            self._loop.call_soon(self._lose, None)

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._protocol.connection_lost(error)
        self._line.send(self.peer._reset if self._arrived else self.peer._take_eof)

    def _reset(self) -> None:
        """Lose the connection because the peer closed it with unread data, and drop ours."""
        self._arrived.clear()
        self._is_closing = True
        self._lose(ConnectionResetError(104, "Connection reset by peer"))


class _Future(asyncio.Future[Any]):
    def __init__(self, number: int, loop: SimLoop) -> None:
        super().__init__(loop=loop)
        self._number = number

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    def __init__(self, number: int, coro: Any, loop: SimLoop, options: dict[str, Any]) -> None:
        self._number = number
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number

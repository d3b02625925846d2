"""One process of a measurement: pinned, on uvloop, told what to do through a pipe.

The parent describes a process as a ``Part``; ``sides.py`` starts it. What the process does is its
*play*: a coroutine function that is sent to it, with module-level functions and plain values in it.
"""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import Any, NamedTuple

import uvloop

from bench.harness.pinning import pin

__all__ = ["Clocks", "Closed", "Part", "Pipe", "Play", "SideFailure", "run_part"]


class Pipe:
    """The process's end of the pipe to its parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def receive(self) -> Any:
        """Wait for the parent while the event loop goes on. Raises EOFError if it is gone."""
        return await asyncio.to_thread(self._connection.recv)

    def send(self, message: Any) -> None:
        """Tell the parent."""
        self._connection.send(message)


Play = Callable[[Pipe], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Part:
    """What a process is to be: ``name`` is how messages about it begin."""

    name: str
    play: Play
    cpu: int | None


class Closed(NamedTuple):
    """The play has ended without complaint."""


class SideFailure(NamedTuple):
    """The process has failed."""

    traceback: str


class Clocks(NamedTuple):
    """Seconds on the wall, and of user plus system time of this process."""

    wall: float
    cpu: float

    @classmethod
    def read(cls) -> Clocks:
        """Return the present time."""
        return cls(perf_counter(), process_time())

    def __sub__(self, earlier: Clocks) -> Clocks:
        """Return the time in between."""
        return Clocks(self.wall - earlier.wall, self.cpu - earlier.cpu)


def run_part(part: Part, connection: Connection) -> None:
    """Play a part to its end; the target of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends all sides
    pin(part.cpu)
    pipe = Pipe(connection)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(part.play(pipe))
        pipe.send(Closed())
    except EOFError:
        pass  # the parent is gone
    except Exception as error:
        pipe.send(SideFailure("".join(traceback.format_exception(error))))

"""One process of a measurement: pinned, on uvloop, controlled through a pipe.

The parent describes a process as a ``Part``, and ``sides.py`` starts it. The *play* of a process is
a coroutine function that is pickled to it, made of module-level functions and plain values.
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
        """Return the parent's next message; EOFError if the parent is gone.

        The event loop goes on meanwhile.
        """
        return await asyncio.to_thread(self._connection.recv)

    def send(self, message: Any) -> None:
        """Send a message to the parent."""
        self._connection.send(message)


Play = Callable[[Pipe], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Part:
    """The description of a process; messages about it begin with ``name``."""

    name: str
    play: Play
    cpu: int | None


class Closed(NamedTuple):
    """Sent when the play has ended without an error."""


class SideFailure(NamedTuple):
    """Sent when the process has failed."""

    traceback: str


class Clocks(NamedTuple):
    """Wall time, and the user plus system time of this process, in seconds."""

    wall: float
    cpu: float

    @classmethod
    def read(cls) -> Clocks:
        """Return the present times."""
        return cls(perf_counter(), process_time())

    def __sub__(self, earlier: Clocks) -> Clocks:
        """Return the elapsed times."""
        return Clocks(self.wall - earlier.wall, self.cpu - earlier.cpu)


def run_part(part: Part, connection: Connection) -> None:
    """Play a part to its end; the target of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends all sides
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

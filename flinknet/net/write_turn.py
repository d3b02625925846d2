"""The write turn: when a connection that has something to send writes it.

Theory of operation. What is to be sent is written at the end of the loop turn, once, however often
it was asked for. What cannot wait for that (``sends_at_once``: something is being flushed whose
buffer timeout is 0) is written within the call that asks: the first such thing of a turn, unless
the turn before had several, so that a lone record leaves at once and many leave together.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol

__all__ = ["Sender", "WriteTurn"]


class Sender(Protocol):
    """Who sends for a whole worker."""

    sends_at_once: bool
    """Whether something is being flushed that cannot wait for the end of the loop turn."""


class WriteTurn:
    """Calls ``write`` for one connection, at the end of a loop turn or at once."""

    __slots__ = ("_ends", "_has_output", "_hurried", "_is_quiet", "_loop", "_sender", "_write")

    def __init__(self, loop: AbstractEventLoop, sender: Sender, write: Callable[[], None]) -> None:
        self._loop = loop
        self._sender = sender
        self._write = write
        self._ends = False
        self._has_output = False
        self._is_quiet = True
        self._hurried = 0

    def request(self) -> None:
        """There is something to send, as often as that happens."""
        if not self._ends:
            self._ends = True
            self._loop.call_soon(self._end)
        if self._sender.sends_at_once:
            self._hurried += 1
            if self._is_quiet:
                self._is_quiet = False
                self._write()
                return
        self._has_output = True

    def _end(self) -> None:
        self._ends = False
        self._is_quiet, self._hurried = self._hurried <= 1, 0
        if self._has_output:
            self._has_output = False
            self._write()

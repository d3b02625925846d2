"""Decides when a connection writes its output.

Output is written once, at the end of the loop turn, however often it was requested. Urgent output
(``sends_at_once``: a flush with a buffer timeout of 0) is written within the requesting call. This
applies to the first urgent output of a turn, unless the previous turn had several. A lone record
thus leaves immediately, and many records leave together.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol

__all__ = ["Sender", "WriteScheduler"]


class Sender(Protocol):
    """Sending state of a worker, shared by its connections."""

    sends_at_once: bool
    """Whether a flush is in progress that cannot wait for the end of the loop turn."""


class WriteScheduler:
    """Calls ``write`` for one connection, at the end of a loop turn or immediately."""

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
        """Request a write; called each time output is added."""
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
        # After a turn with several urgent outputs, the next ones wait for the end of their turn.
        self._is_quiet, self._hurried = self._hurried <= 1, 0
        if self._has_output:
            self._has_output = False
            self._write()

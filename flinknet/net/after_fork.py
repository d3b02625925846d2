"""Protection of forked processes, which must not use their parent's exchange.

A fork copies the environment's memory and shares its sockets, but not the event loop or thread that
serves it. A record written by the child would reach no reader, and bytes it sends would corrupt the
parent's stream. In the child, every environment is therefore *disowned* before other code runs: its
writers and readers raise. The parent is not affected.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from flinknet.errors import LocalProtocolError

__all__ = ["disown_after_fork", "used_after_fork"]


class ProcessBound(Protocol):
    """An object that belongs to one process and not to its forked children."""

    def disown(self) -> None:
        """Make each later call raise ``used_after_fork``; change nothing outside this process."""


_owned: WeakSet[ProcessBound] = WeakSet()


def disown_after_fork(one: ProcessBound) -> None:
    """Let children forked from now on disown an object, while it lives."""
    _owned.add(one)


def used_after_fork(what: str) -> LocalProtocolError:
    """Return the error for a forked child that uses ``what``."""
    return LocalProtocolError(
        f"{what} was opened before this process ({os.getpid()}) was forked, and belongs to its "
        'parent: open it again in this process, or start this process with "spawn"'
    )


def _disown_all() -> None:
    for one in tuple(_owned):
        one.disown()
    _owned.clear()


os.register_at_fork(after_in_child=_disown_all)

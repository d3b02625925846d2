"""Forked processes, which must not use the exchange of their parents.

Theory of operation. A fork copies an environment with its memory, and shares its sockets; the loop,
or the thread, that serves it stays behind. A record that the child writes would reach no reader,
and bytes that it sends would garble the stream of its parent. So in the child every environment is
*disowned* before anything else runs: its writers and readers raise. The parent notices nothing.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from flinknet.errors import LocalProtocolError

__all__ = ["disown_after_fork", "left_behind"]


class Owned(Protocol):
    """An object that belongs to one process, and not to its forked children."""

    def disown(self) -> None:
        """Raise ``left_behind`` in each call from now on; touch nothing outside this process."""


_owned: WeakSet[Owned] = WeakSet()


def disown_after_fork(one: Owned) -> None:
    """Let children that are forked from now on disown an object, as long as it lives."""
    _owned.add(one)


def left_behind(what: str) -> LocalProtocolError:
    """Return the error for a forked child that uses ``what``."""
    return LocalProtocolError(
        f"{what} was opened before this process ({os.getpid()}) was forked, and belongs to the "
        f"process that it was forked from: open it anew in this one, or start this one with "
        f'"spawn"'
    )


def _disown_all() -> None:
    for one in tuple(_owned):
        one.disown()
    _owned.clear()


os.register_at_fork(after_in_child=_disown_all)

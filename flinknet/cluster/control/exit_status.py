"""What a process of a cluster says with its exit status."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitStatus"]


class ExitStatus(IntEnum):
    """The exit status of a coordinator or worker that ends by itself."""

    STOPPED = 0
    """It was told to."""
    FAILED = 1
    """An error that it does not expect."""
    REFUSED = 2
    """It cannot work so: a wrong configuration, a port that is taken, a coordinator that does not
    want it."""
    COORDINATOR_LOST = 3
    """A worker whose coordinator is gone."""
    PARENT_GONE = 4
    """A process whose launcher is gone."""
    USER_CODE = 5
    """A worker in which a thread of user code has called ``os._exit``."""
    SUPERSEDED = 6
    """A coordinator whose state directory another one has taken over."""

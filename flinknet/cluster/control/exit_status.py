"""Exit statuses of the processes of a cluster."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitStatus"]


class ExitStatus(IntEnum):
    """The exit status of a coordinator or worker that ends by itself."""

    STOPPED = 0
    """The process was told to end."""
    FAILED = 1
    """An unexpected error."""
    REFUSED = 2
    """The process cannot run: a wrong configuration, a port that is taken, a coordinator that
    refuses it."""
    COORDINATOR_LOST = 3
    """A worker has lost its coordinator."""
    PARENT_GONE = 4
    """The launcher of the process is gone."""
    USER_CODE = 5
    """A thread of user code in a worker has called ``os._exit``."""
    SUPERSEDED = 6
    """Another coordinator has taken over the state directory."""

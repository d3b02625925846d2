"""The open files: whether this process may have as many sockets as its limits promise.

Every socket is an open file, and the operating system limits them (RLIMIT_NOFILE). When none is
left, nobody can connect and nothing can be opened, whatever else is configured. So the limits of an
environment are held against it at the start. A process may raise its own soft limit, up to the hard
one, as other runtimes do, and as is done here; only what exceeds the hard one is refused.
"""

from __future__ import annotations

import resource

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError

__all__ = ["open_files_needed", "provide_open_files"]

_OTHER_FILES = 128
"""Sockets that this side dials, listens on or has with a coordinator, spill files, what the program
itself opens. None of it can be known."""


def open_files_needed(config: NetworkConfig) -> int:
    """Return how many files an environment may have open: accepted connections, sockets in
    handshake and as many that were turned away, and some more."""
    wire = config.wire
    return wire.accepted_connections_max + 2 * wire.pending_handshakes_max + _OTHER_FILES


def provide_open_files(config: NetworkConfig) -> None:
    """See that so many files may be open. Raises ConfigurationError if they may not."""
    needed = open_files_needed(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError) as error:
        wire = config.wire
        raise ConfigurationError(
            f"this process may have {soft} files open (RLIMIT_NOFILE, at most {hard}), but "
            f"wire.accepted_connections_max ({wire.accepted_connections_max}) and "
            f"wire.pending_handshakes_max ({wire.pending_handshakes_max}) may need {needed}: lower "
            f"them, or raise the limit (ulimit -Hn)"
        ) from error

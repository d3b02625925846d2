"""What this machine must have before an environment starts: memory, open files, and a place for
long records.

Without this look, memory would be missed in the middle of a job, open files when many have
connected, and the place by the first record that needs it.

Every socket is an open file, and the operating system limits them (RLIMIT_NOFILE). A process may
raise its own soft limit up to the hard one, as other runtimes do; only a need beyond the hard limit
is refused.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError

__all__ = ["check_machine", "open_files_needed", "provide_open_files"]


_OTHER_FILES = 128
"""Sockets that this side dials, listens on or has with a coordinator, spill files, what the program
itself opens. None of it can be known. Where fewer than twice as many files may be open, half of
them must do."""

_LEAST_FILES = 64
"""With fewer no worker starts: it has some 20 of its own."""


def open_files_needed(config: NetworkConfig, hard: int) -> int:
    """Return how many files an environment may have open: accepted connections, sockets in
    handshake and as many that were turned away, and some more. ``hard`` of them may be open."""
    return _connections(config) + _other_files_within(hard)


def _connections(config: NetworkConfig) -> int:
    return config.wire.accepted_connections_max + 2 * config.wire.pending_handshakes_max


def _other_files_within(hard: int) -> int:
    return _OTHER_FILES if hard == resource.RLIM_INFINITY else min(_OTHER_FILES, hard // 2)


def provide_open_files(config: NetworkConfig) -> None:
    """See that so many files may be open. Raises ConfigurationError if they may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = open_files_needed(config, hard)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError) as error:
        wire, advice, connections = config.wire, "", _connections(config)
        enough = max(connections + min(connections, _OTHER_FILES), _LEAST_FILES)
        if hard >= _LEAST_FILES:
            free = hard - _other_files_within(hard)
            advice = (
                f"set network.wire.accepted_connections_max to {free // 2} and "
                f"network.wire.pending_handshakes_max to {free // 4}, or lower values, or "
            )
        raise ConfigurationError(
            f"this process may have {soft} files open (RLIMIT_NOFILE, at most {hard}), but "
            f"network.wire.accepted_connections_max ({wire.accepted_connections_max}), twice "
            f"network.wire.pending_handshakes_max ({wire.pending_handshakes_max}) and "
            f"{_other_files_within(hard)} other files may need {needed}: {advice}raise the hard "
            f"limit to at least {enough} (ulimit -Hn, as root, or "
            "/etc/security/limits.conf)"
        ) from error


def check_machine(config: NetworkConfig, environments: int = 1) -> None:
    """Raise ConfigurationError if this machine cannot hold so many environments side by side."""
    _check_memory(config, environments)
    provide_open_files(config)
    _check_spill_directory(config.spill_directory)


def _check_memory(config: NetworkConfig, environments: int) -> None:
    each = config.network_memory_bytes
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if each * environments > installed:
        workers = f"{environments} workers" if environments > 1 else "a worker"
        raise ConfigurationError(
            f"{workers} with network.network_memory_bytes = {each} each need "
            f"{each * environments} bytes, but this machine has {installed}: use fewer workers "
            "(--workers) or less network memory"
        )


def _check_spill_directory(directory: str) -> None:
    if not directory:
        return
    try:
        usable = Path(directory).is_dir() and os.access(directory, os.W_OK | os.X_OK)
    except ValueError:  # a null byte
        usable = False
    if not usable:
        raise ConfigurationError(
            f"network.spill_directory is {directory!r}, where no file can be made: make that "
            "directory, choose another one, or leave the option empty for the system's own"
        )

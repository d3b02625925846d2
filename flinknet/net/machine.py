"""Checks of this machine before an environment starts: memory, open files, and a spill directory.

Without these checks, a job would fail in the middle: for lack of memory, for lack of open files
after many connections, or at the first record that needs the directory.

Every socket is an open file, and the operating system limits their number (RLIMIT_NOFILE). A
process may raise its soft limit up to the hard limit, as other runtimes do. Only a need beyond the
hard limit is an error.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError

__all__ = ["check_machine", "open_files_needed", "provide_open_files"]


_OTHER_FILES = 128
"""Reserve for sockets that this side dials, listens on or uses with a coordinator, for spill files,
and for the program's own files, which cannot be predicted. If the hard limit is below twice this
number, half of the limit is reserved."""

_LEAST_FILES = 64
"""Smallest hard limit for a worker, which uses about 20 files itself."""


def open_files_needed(config: NetworkConfig, hard: int) -> int:
    """Return the number of files that an environment may open, with a hard limit of ``hard``.

    These are accepted connections, sockets in handshake, as many sockets turned away, and a
    reserve.
    """
    return _connections(config) + _other_files_within(hard)


def _connections(config: NetworkConfig) -> int:
    return config.wire.accepted_connections_max + 2 * config.wire.pending_handshakes_max


def _other_files_within(hard: int) -> int:
    return _OTHER_FILES if hard == resource.RLIM_INFINITY else min(_OTHER_FILES, hard // 2)


def provide_open_files(config: NetworkConfig) -> None:
    """Raise the soft limit of open files if necessary.

    Raises:
        ConfigurationError: If the hard limit is too low.
    """
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
    """Raise ConfigurationError if this machine cannot hold that many environments together."""
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
            f"network.spill_directory is {directory!r}, where files cannot be created: create that "
            "directory, choose another one, or leave the option empty for the system's temporary "
            "directory"
        )

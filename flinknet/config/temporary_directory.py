"""The directory for temporary files; a container may have none."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from flinknet.config.locked_directory import LockedDirectory, remove_leftovers
from flinknet.errors import ConfigurationError

__all__ = ["make_socket_directory", "temporary_directory"]

_SOCKET_PATH_BYTES_MAX = 103
"""Maximum length of a Unix socket's path on macOS; Linux allows four bytes more."""

_SHORT_DIRECTORIES = ("/tmp", "/var/tmp", "/dev/shm")
"""Directories for a socket if TMPDIR is too long, as set by job schedulers and test runners."""


def temporary_directory() -> str:
    """Return the system's directory for temporary files.

    Raises ConfigurationError if none is writable.
    """
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"there is no directory for temporary files ({error.strerror}): set the environment "
            "variable TMPDIR to one that this user may write"
        ) from error


def make_socket_directory(prefix: str, name: str) -> LockedDirectory:
    """Create a directory that only this user may enter, for a Unix socket called ``name``.

    It is below the directory for temporary files, or below a shorter one if the socket's path would
    exceed the system's limit. Leftovers of ended processes are removed. Raises ConfigurationError
    if no directory is suitable.
    """
    chosen = temporary_directory()
    places = [chosen, os.environ.get("XDG_RUNTIME_DIR", ""), *_SHORT_DIRECTORIES]
    for place in filter(None, places):
        with suppress(OSError):  # it is missing or not writable
            remove_leftovers(prefix, Path(place))
            directory = LockedDirectory(prefix, Path(place))
            if len(os.fsencode(directory.path / name)) <= _SOCKET_PATH_BYTES_MAX:
                return directory
            directory.close()
    raise ConfigurationError(
        "no directory is short enough for a Unix socket, whose path may have "
        f"{_SOCKET_PATH_BYTES_MAX} bytes: the one for temporary files is {chosen}, and none of "
        f"{', '.join(_SHORT_DIRECTORIES)} can be written. Set the environment variable TMPDIR to a "
        "shorter one"
    )

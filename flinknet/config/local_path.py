"""Directories given by users: a path, a URL, or a path as a ``file://`` URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from flinknet.errors import ConfigurationError

__all__ = ["is_process_local", "local_path"]

_OF_ONE_PROCESS = "memory"

OF_THIS_MACHINE = ("", "localhost")


def is_process_local(place: str) -> bool:
    """Return whether the location is in memory, separate for each process."""
    return urlsplit(place).scheme == _OF_ONE_PROCESS


def local_path(place: str) -> Path | None:
    """Return the local path, also for ``file:///tmp``; None for any other URL.

    Raises ConfigurationError for a file of another machine.
    """
    if "://" not in place:
        return Path(place)
    parts = urlsplit(place)
    if parts.scheme != "file":
        return None
    if parts.netloc not in OF_THIS_MACHINE:
        raise ConfigurationError(
            f"{place} is on another machine, {parts.netloc}: write a local path with three "
            "slashes, file:///tmp"
        )
    # Imported here, because it imports an HTTP client, and few paths are file:// URLs.
    from urllib.request import url2pathname

    return Path(url2pathname(parts.path))

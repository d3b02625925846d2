"""Archives that come with a job, as its functions find them."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path

from flinknet.errors import ConfigurationError

__all__ = ["ARCHIVES", "job_archive"]

ARCHIVES: ContextVar[Mapping[str, Path]] = ContextVar("archives", default={})  # noqa: B039
"""The directories of the archives of the job that runs now, by name."""


def job_archive(name: str) -> Path:
    """Return the directory of an archive that was submitted with the job, by the name behind its
    ``#``, or its file's name; in a function, when it runs."""
    archives = ARCHIVES.get()
    if name not in archives:
        known = ", ".join(sorted(archives)) or "none"
        raise ConfigurationError(
            f"the job has no archive {name}, but {known}: submit it with --archives FILE#{name}"
        )
    return archives[name]

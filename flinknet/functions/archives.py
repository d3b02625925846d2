"""Archives submitted with a job, as its functions find them."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path

from flinknet.errors import ConfigurationError

__all__ = ["ARCHIVES", "job_archive"]

ARCHIVES: ContextVar[Mapping[str, Path]] = ContextVar("archives", default={})  # noqa: B039
"""The directories of the running job's archives, by name."""


def job_archive(name: str) -> Path:
    """Return the directory of an archive that was submitted with the job.

    The name is the part after ``#`` in ``--archives FILE#NAME``, or the file's name. Functions can
    call this only while they run.
    """
    archives = ARCHIVES.get()
    if name not in archives:
        known = ", ".join(sorted(archives)) or "none"
        raise ConfigurationError(
            f"the job has no archive {name}, only {known}: submit it with --archives FILE#{name}"
        )
    return archives[name]

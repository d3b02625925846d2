"""Conversion of a user's path or URL to checkpoint storage."""

from __future__ import annotations

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.storage import Storage
from flinknet.config import CheckpointingConfig
from flinknet.config.local_path import is_process_local, local_path
from flinknet.errors import ConfigurationError

__all__ = ["absolute_location", "open_storage"]


def open_storage(location: str, config: CheckpointingConfig) -> Storage:
    """Return the storage at ``location``, without accessing it.

    Raises ConfigurationError for an empty location, for one that other processes cannot read, and
    for a URL unknown to obstore (the extra flinknet[obstore]).
    """
    if not location:
        raise ConfigurationError(
            "checkpoints have no location: set checkpointing.directory to a directory or a URL"
        )
    if is_process_local(location):
        raise ConfigurationError(
            f"{location} is in each process's own memory, so a process could not restore state "
            "that another one wrote: name a directory that all workers share, or an object store "
            "(checkpointing.directory, or set_checkpoint_storage_dir in the job)"
        )
    path = local_path(location)
    if path is not None:
        return FileStorage(path.absolute(), config)
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        from flinknet.checkpoint.object_storage import ObjectStorage
    except ImportError as cause:
        raise ConfigurationError(
            f"{location} is in an object store: install flinknet[obstore], or name a directory"
        ) from cause
    try:
        return ObjectStorage(from_url(location), location.rstrip("/"), config)
    except (BaseError, ValueError) as cause:
        reason = str(cause).partition("\n")[0]
        raise ConfigurationError(f"{location} is not an object store: {reason}") from cause


def absolute_location(location: str) -> str:
    """Return the location in a form for other processes: relative paths are made absolute."""
    path = local_path(location) if location else None
    return location if path is None else str(path.absolute())

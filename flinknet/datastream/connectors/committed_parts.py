"""Rules for the committed files of an output: which a job may add to, and which it removes.

The same rules apply to a directory (``part_files.py``) and a store (``remote_output.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

from flinknet.datastream.connectors.part_names import HIDDEN, CommittedPart, PartNames
from flinknet.errors import ConfigurationError
from flinknet.state.state_handler import RestoredCheckpoint

__all__ = ["WITHDRAWN", "check_may_add", "is_behind"]

WITHDRAWN = (
    "%s: removed %d files that subtask %d had committed with checkpoints after checkpoint %d, "
    "from which the job continues: their records will be written again"
)
"""Log message: the location, the number of files, the subtask and the checkpoint."""


def is_behind(part: CommittedPart, job_id: str, checkpoint_id: int, index: int) -> bool:
    """Return whether this subtask committed the file with a later checkpoint than this one."""
    return (part.job_id, part.subtask) == (job_id, index) and part.checkpoint_id > checkpoint_id


def check_may_add(
    place: str,
    found: Iterable[str],
    names: PartNames,
    job_id: str,
    restored: RestoredCheckpoint | None,
    *,
    may_repeat: bool,
) -> None:
    """Raise ConfigurationError if a job must not add its files to the files in ``found``.

    A new job requires a location without files of other jobs. A job that continues another job
    leaves that job's files alone. It is rejected if some of them belong to checkpoints later than
    ``restored``, unless it ``may_repeat`` their records.
    """
    if restored is None:
        for name in found:
            if not name.startswith(HIDDEN) and f"-{job_id}-" not in name:
                raise ConfigurationError(
                    f"{place} holds {name}, which is not from this job and which it cannot "
                    "replace, because it commits with each checkpoint: remove it or choose "
                    "another path"
                )
        return
    if restored.job_id == job_id or may_repeat:
        return
    parts = [(part, name) for name in found if (part := names.committed(name))]
    later = sorted(
        (part.checkpoint_id, name)
        for part, name in parts
        if part.job_id == restored.job_id and part.checkpoint_id > restored.checkpoint_id
    )
    if later:
        raise ConfigurationError(
            f"{place} holds {len(later)} files, {later[0][1]} for example, that job "
            f"{restored.job_id} has committed with checkpoints after {restored.checkpoint_id}, "
            "from which this job continues: their records would be written twice. Remove these "
            "files (the last number in a name is the checkpoint), continue from a later "
            "checkpoint, choose another path, or allow repeated output "
            "(CheckpointConfig.set_allow_repeated_output)"
        )

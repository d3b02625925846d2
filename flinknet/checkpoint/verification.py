"""What is wrong with a checkpoint: every file of it is read, and checked."""

from __future__ import annotations

from flinknet.checkpoint.metadata import CheckpointMetadata
from flinknet.checkpoint.state_parts import check_part
from flinknet.checkpoint.storage import Storage
from flinknet.errors import CheckpointCorruptedError, CheckpointError, CheckpointNotFoundError

__all__ = ["find_damage"]


async def find_damage(
    storage: Storage, directory: str, metadata: CheckpointMetadata
) -> list[CheckpointError]:
    """Return an error for each file of a checkpoint that is missing, torn or damaged.

    ``directory`` is a path in ``storage``; what its metadata says has been read there.
    CheckpointStorageError if a file cannot be read at present, which says nothing about it.
    """
    errors: list[CheckpointError] = []
    sizes = await storage.files(directory)
    for operator, subtask, kind, part in metadata.parts():
        whose = f"{kind} state of {operator.uid}[{subtask.subtask_index}]"
        try:
            if part.name is not None:
                path = f"{directory}/{part.name}"
                _check_size(f"{storage.location}/{path}", sizes.get(path), part.size_bytes)
            await check_part(storage, directory, part)
        except (CheckpointCorruptedError, CheckpointNotFoundError) as error:
            errors.append(type(error)(f"{error} ({whose})"))
    return errors


def _check_size(file: str, found: int | None, size_bytes: int) -> None:
    if found is None:
        raise CheckpointCorruptedError(f"{file} is missing")
    if found != size_bytes:
        raise CheckpointCorruptedError(
            f"{file} is torn: it has {found} bytes and should have {size_bytes}"
        )

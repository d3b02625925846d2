"""What is wrong with a checkpoint: its files are looked at, or all of them read and checked."""

from __future__ import annotations

from flinknet.checkpoint.metadata import CheckpointMetadata
from flinknet.checkpoint.state_parts import check_part
from flinknet.checkpoint.storage import Storage
from flinknet.errors import CheckpointCorruptedError, CheckpointError, CheckpointNotFoundError

__all__ = ["find_damage", "find_torn"]


async def find_damage(
    storage: Storage, directory: str, metadata: CheckpointMetadata
) -> list[CheckpointError]:
    """Return an error for each file of a checkpoint that is missing, torn or damaged.

    ``directory`` is a path in ``storage``; what its metadata says has been read there.
    CheckpointStorageError if a file cannot be read at present, which says nothing about it.
    """
    return await _find(storage, directory, metadata, reads=True)


async def find_torn(
    storage: Storage, directory: str, metadata: CheckpointMetadata
) -> list[CheckpointError]:
    """Return an error for each file that is missing, or not as long as it was written: that takes
    one listing, however much state there is. What else may be wrong with a file is found by who
    reads it."""
    return await _find(storage, directory, metadata, reads=False)


async def _find(
    storage: Storage, directory: str, metadata: CheckpointMetadata, *, reads: bool
) -> list[CheckpointError]:
    errors: list[CheckpointError] = []
    sizes = await storage.files(directory)
    for operator, subtask, kind, part in metadata.parts():
        whose = f"{kind} state of {operator.uid}[{subtask.subtask_index}]"
        try:
            if part.name is not None:
                path = f"{directory}/{part.name}"
                _check_size(f"{storage.location}/{path}", sizes.get(path), part.size_bytes)
            if reads:
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

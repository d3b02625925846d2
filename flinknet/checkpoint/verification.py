"""Verification of a checkpoint's files, by their sizes or by their contents."""

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

    ``directory`` is a path in ``storage``, and ``metadata`` was read there. Raises
    CheckpointStorageError if a file cannot be read at present, because it may still be valid.
    """
    return await _find(storage, directory, metadata, reads=True)


async def find_torn(
    storage: Storage, directory: str, metadata: CheckpointMetadata
) -> list[CheckpointError]:
    """Return an error for each file that is missing or has the wrong length.

    This takes one listing, regardless of the amount of state. Other damage is found when a file is
    read.
    """
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

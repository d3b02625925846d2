"""Checkpoints for tests."""

from __future__ import annotations

from pathlib import Path

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorState,
    Section,
    StateKind,
    StatePart,
    SubtaskState,
)
from flinknet.wire.checkpoint_options import CheckpointKind
from flinknet.wire.checksum import crc32c

LARGE = bytes(range(256)) * 120
SMALL = b"the count is 7"


def files_below(top: Path) -> list[str]:
    """Return all files of a directory, including unfinished ones."""
    return sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file())


def change(file: Path, how: str) -> None:
    """Damage a file."""
    content = bytearray(file.read_bytes())
    if how == "removed":
        file.unlink()
    elif how == "torn":
        file.write_bytes(content[:-1])
    elif how == "a bit":
        content[len(content) // 2] ^= 4
        file.write_bytes(content)
    elif how == "foreign":
        file.write_bytes(b"PAR1" + bytes(len(content) - 4))
    else:
        assert how == "newer"
        content[9] += 1
        file.write_bytes(content)


def inline(*sections: tuple[int | str | tuple[int, int], bytes]) -> StatePart:
    """Return a part that is stored in the metadata."""
    made = tuple(Section(label, len(block), crc32c(block)) for label, block in sections)
    return StatePart(made, None, b"".join(block for _, block in sections))


def metadata(
    checkpoint_id: int = 7,
    attempt: int = 2,
    operators: tuple[OperatorState, ...] = (),
    kind: CheckpointKind = CheckpointKind.CHECKPOINT,
    job_id: str = "job-1",
) -> CheckpointMetadata:
    return CheckpointMetadata(
        job_id=job_id,
        job="flights",
        attempt=attempt,
        checkpoint_id=checkpoint_id,
        kind=kind,
        triggered_ms=1_700_000_000_000 + checkpoint_id,
        completed_ms=1_700_000_000_250 + checkpoint_id,
        operators=operators,
        written_by="0.1.0",
    )


async def made(
    claimed: FencedStore,
    checkpoint_id: int,
    kind: CheckpointKind = CheckpointKind.CHECKPOINT,
    content: bytes = LARGE,
) -> CheckpointMetadata:
    """Make and complete a checkpoint of one operator, with a file and an inline part, and remove
    the oldest."""
    directory = claimed.directory(checkpoint_id, is_savepoint=kind.is_savepoint)
    write = claimed.store.write_part
    keyed = await write(directory, "keyed-0", [(3, content), (4, b"group 4"), (4, b", more")])
    state = await write(directory, "operator-0", [("offsets", SMALL)])
    assert keyed is not None
    assert state is not None
    parts = {StateKind.KEYED: keyed, StateKind.OPERATOR: state}
    subtasks = (SubtaskState(0, parts), SubtaskState(1, {}, finished=True))
    operators = (OperatorState("counts", 2, 128, subtasks),)
    done = metadata(checkpoint_id, claimed.attempt, operators, kind, claimed.store.job_id)
    await claimed.complete(done)
    await claimed.remove_all_but(claimed.store.config.retained)
    return done

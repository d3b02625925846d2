"""The journal of a job's checkpoints: which attempt may complete them, and which are complete.

Theory of operation
-------------------
The journal is a sequence of small files, numbered from 0. Each is created only if the number is
free (``FORMAT.md``, section 4). An attempt of the job begins with an entry that claims the
checkpoints, and every checkpoint that it completes is the next entry. A coordinator that was
replaced and does not know it tries the number with which its successor has claimed. It finds the
entry there, and so it has completed nothing. *Create if absent* is the only guarantee required of
the storage, and every file system and object store offers it.

    an attempt's next number = the number of its last entry + 1
    claims are never removed; other entries are removed with their checkpoint

The second rule makes the first one safe: the next number of a replaced attempt is always taken.
Only when the job has ended for good, the whole journal is removed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from flinknet.checkpoint.envelope import open_envelope, put_in_envelope
from flinknet.errors import CheckpointCorruptedError

__all__ = [
    "ENTRY_BYTES_MAX",
    "JOURNAL",
    "Entry",
    "decode_entry",
    "encode_entry",
    "entry_number",
    "entry_path",
]

JOURNAL = "journal"
"""Name of the journal's directory."""

_PATH = re.compile(rf"{JOURNAL}/([0-9]{{20}})")
ENTRY_BYTES_MAX = 4096
"""Upper limit for the size of an entry, far more than an entry has."""


class Entry(NamedTuple):
    """One entry: an attempt claims the checkpoints, or has completed one in a directory."""

    attempt: int
    completed: str | None = None


def entry_path(number: int) -> str:
    """Return the path of an entry; paths sort by number."""
    return f"{JOURNAL}/{number:020d}"


def entry_number(path: str) -> int | None:
    """Return the number of the entry with this path, or None if the path is not an entry's."""
    found = _PATH.fullmatch(path)
    return int(found[1]) if found else None


def encode_entry(entry: Entry) -> bytes:
    """Return the file for an entry."""
    return put_in_envelope({"what": "entry", **entry._asdict()}, ENTRY_BYTES_MAX)


def decode_entry(file: bytes, name: str) -> Entry:
    """Return the entry in a file. Raises CheckpointCorruptedError, with ``name``, if invalid."""
    content = open_envelope(file, name)
    attempt, completed = content.get("attempt"), content.get("completed")
    if content.get("what") != "entry" or type(attempt) is not int or attempt < 0:
        raise CheckpointCorruptedError(f"{name} is not an entry of a job's journal")
    if not isinstance(completed, str | None):
        raise CheckpointCorruptedError(f"{name} does not name a checkpoint: {completed!r}")
    return Entry(attempt, completed)

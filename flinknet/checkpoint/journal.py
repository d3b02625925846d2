"""The journal of a job's checkpoints: who may complete them, and which are complete.

Theory of operation
-------------------
The journal is a row of small files, numbered from 0, each created only if there is none of its
number (``FORMAT.md``, section 4). An attempt of the job begins with an entry in which it takes
over; each checkpoint that it completes is the next entry. A coordinator that has been replaced, and
does not know it yet, writes the number at which its successor took over: it finds the entry there,
and has completed nothing. So *created only if absent* is all that a place for checkpoints must be
able to do, and every file system and object store is.

    an attempt's next number = the number of its last entry + 1
    entries in which an attempt takes over are never removed; others go with their checkpoint

The second line makes the first one safe: the number that a replaced attempt would write next is
always taken.
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
"""Name of the directory."""

_PATH = re.compile(rf"{JOURNAL}/([0-9]{{20}})")
ENTRY_BYTES_MAX = 4096
"""Far more than an entry has."""


class Entry(NamedTuple):
    """One entry: an attempt takes over, or has completed the checkpoint in a directory."""

    attempt: int
    completed: str | None = None


def entry_path(number: int) -> str:
    """Return the path of an entry; by name they are in order."""
    return f"{JOURNAL}/{number:020d}"


def entry_number(path: str) -> int | None:
    """Return the number of the entry with this path, None if it is none's."""
    found = _PATH.fullmatch(path)
    return int(found[1]) if found else None


def encode_entry(entry: Entry) -> bytes:
    """Return the file's bytes."""
    return put_in_envelope({"what": "entry", **entry._asdict()}, ENTRY_BYTES_MAX)


def decode_entry(file: bytes, name: str) -> Entry:
    """Return what a file says. CheckpointCorruptedError, with ``name``, if it is no entry."""
    content = open_envelope(file, name)
    attempt, completed = content.get("attempt"), content.get("completed")
    if content.get("what") != "entry" or type(attempt) is not int or attempt < 0:
        raise CheckpointCorruptedError(f"{name} is no entry of a job's journal")
    if not isinstance(completed, str | None):
        raise CheckpointCorruptedError(f"{name} names no checkpoint: {completed!r}")
    return Entry(attempt, completed)

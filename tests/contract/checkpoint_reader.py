"""A reader of checkpoints that was written from FORMAT.md alone: nothing of flinknet is imported.

It reads a job's directory in a file system, and checks everything that the format says.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgpack

POLYNOMIAL = 0x1EDC6F41
TABLE: list[int] = []
for byte in range(256):
    value = byte
    for _ in range(8):
        value = value >> 1 ^ (int(f"{POLYNOMIAL:032b}"[::-1], 2) if value & 1 else 0)
    TABLE.append(value)


def checksum(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def envelope(file: Path) -> dict[str, Any]:
    """The content of a file in an envelope (section 2)."""
    data = file.read_bytes()
    if data[:8] != b"flinkchk":
        raise ValueError(f"{file}: not a checkpoint's")
    if int.from_bytes(data[8:10], "big") != 1:
        raise ValueError(f"{file}: another version")
    length = int.from_bytes(data[10:14], "big")
    if len(data) != 18 + length:
        raise ValueError(f"{file}: torn")
    if checksum(data[: 14 + length]) != int.from_bytes(data[14 + length :], "big"):
        raise ValueError(f"{file}: damaged")
    content: dict[str, Any] = msgpack.unpackb(data[14 : 14 + length])
    return content


def complete(job: Path) -> list[Path]:
    """The directories of a job's complete checkpoints, in order of completion (section 4)."""
    entries = sorted(
        entry for entry in (job / "journal").iterdir() if re.fullmatch("[0-9]{20}", entry.name)
    )
    found = []
    for entry in entries:
        content = envelope(entry)
        assert content["what"] == "entry"
        if content["completed"] is not None and (job / content["completed"] / "metadata").exists():
            found.append(job / content["completed"])
    return found


def state(checkpoint: Path) -> dict[tuple[str, int, str], list[tuple[Any, bytes]]]:
    """Labels and sections by operator, subtask and kind of state, all checked (section 3)."""
    metadata = envelope(checkpoint / "metadata")
    assert metadata["what"] == "checkpoint"
    name = f"checkpoint-{metadata['checkpoint_id']}-attempt-{metadata['attempt']}"
    assert checkpoint.name == name
    found: dict[tuple[str, int, str], list[tuple[Any, bytes]]] = {}
    for operator in metadata["operators"]:
        for subtask in operator["subtasks"]:
            assert subtask["subtask_index"] < operator["parallelism"]
            for kind, part in subtask["parts"].items():
                whose = (operator["uid"], subtask["subtask_index"], kind)
                data = (
                    part["inline"] if "inline" in part else (checkpoint / part["name"]).read_bytes()
                )
                found[whose] = sections(whose, data, part["sections"])
    return found


def sections(whose: Any, data: bytes, described: list[Any]) -> list[tuple[Any, bytes]]:
    found = []
    start = 0
    for label, length, expected in described:
        section = data[start : start + length]
        if len(section) != length or checksum(section) != expected:
            raise ValueError(f"{whose}: section {label} is damaged")
        found.append((label, section))
        start += length
    if start != len(data):
        raise ValueError(f"{whose}: torn")
    return found


def chunks(section: bytes) -> list[bytes]:
    """The buffers of what was in flight in one channel (section 5)."""
    found = []
    start = 0
    while start < len(section):
        length = int.from_bytes(section[start : start + 4], "big")
        found.append(section[start + 4 : start + 4 + length])
        start += 4 + length
    if start != len(section) or b"" in found:
        raise ValueError("what was in flight is torn")
    return found

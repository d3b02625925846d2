"""A reader of checkpoints written from FORMAT.md alone: it imports nothing of flinknet.

It reads a job's directory in a file system, and checks every rule of the format.
"""

from __future__ import annotations

import re
from pathlib import Path
from struct import unpack
from typing import Any
from zlib import crc32

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
    """Return the content of a file that has an envelope (section 2)."""
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
    """Return the directories of complete checkpoints, in order of completion (section 4)."""
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
    """Return labels and checked sections by operator, subtask and kind of state (section 3)."""
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
    """Split a section into the buffers that were in flight in one channel (section 5)."""
    found = []
    start = 0
    while start < len(section):
        length = int.from_bytes(section[start : start + 4], "big")
        found.append(section[start + 4 : start + 4 + length])
        start += 4 + length
    if start != len(section) or b"" in found:
        raise ValueError("what was in flight is torn")
    return found


def _headed(part: bytes, mark: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the checked header map of keyed or operator state, and the bytes behind it."""
    length, expected = (int.from_bytes(part[start : start + 4], "big") for start in (10, 14))
    body = part[18 : 18 + length]
    if part[:10] != mark + b"\x00\x01" or len(body) != length or crc32(body) != expected:
        raise ValueError(f"no {mark.decode()} of version 1, or damaged")
    header: dict[str, Any] = msgpack.unpackb(body)
    return header, part[18 + length :]


def _values(data: bytes) -> list[Any]:
    """Return consecutive values.

    A list is an extension that begins with a class number that no program registers.
    """

    def extension(code: int, content: bytes) -> Any:
        listed = msgpack.unpackb(content, ext_hook=extension)
        if listed[0] != 4294967296:
            raise ValueError(f"extension {code} is no list")
        return listed[1:]

    unpacker = msgpack.Unpacker(ext_hook=extension, strict_map_key=False, use_list=False)
    unpacker.feed(data)
    return list(unpacker)


def keyed_state(part: bytes) -> dict[str, dict[int, list[tuple[Any, Any]]]]:
    """Return keys and values by state and key group (section 6)."""
    header, content = _headed(part, b"FLNKKEYS")
    names = [state[0] for state in header["states"]]
    found: dict[str, dict[int, list[tuple[Any, Any]]]] = {name: {} for name in names}
    first, end = header["key_groups"]
    for number, size, expected in header["groups"]:
        group, content = content[:size], content[size:]
        if not first <= number < end or len(group) != size or crc32(group) != expected:
            raise ValueError(f"key group {number} is damaged")
        while group:
            state, entries, length = unpack(">HII", group[:10])
            flat = _values(group[10 : 10 + length])
            assert len(flat) == 2 * entries
            into = found[names[state]].setdefault(number, [])
            into += zip(flat[::2], flat[1::2], strict=True)
            group = group[10 + length :]
    if content:
        raise ValueError("it goes on behind its end")
    return found


def operator_state(part: bytes) -> dict[str, list[Any]]:
    """Return the elements of each operator state (section 7)."""
    header, behind = _headed(part, b"FLNKOPER")
    assert not behind
    return {
        name: [value for element in elements for value in _values(element)]
        for name, _, _, elements in header["states"]
    }

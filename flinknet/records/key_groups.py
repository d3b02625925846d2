"""Key groups: the stable mapping of a key to the subtask that owns it.

A key hashes to one of ``max_parallelism`` key groups, and each subtask owns a range of groups
(Flink's KeyGroupRangeAssignment). The hash is computed from the normalized key
(``key_normalization.py``), so it depends on the key's value alone. It is independent of the process
(Python's own ``hash`` is salted), of the Python version, and of the type of a number: 1, 1.0 and
True are equal keys and must reach the same subtask.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from msgpack import Packer

from flinknet.errors import ConfigurationError, SerializationError
from flinknet.records.key_normalization import KEY_ERRORS, normalized_key

__all__ = [
    "check_key_groups",
    "default_max_parallelism",
    "key_group",
    "key_group_range",
    "key_hash",
    "mixed",
    "operator_index",
]

_pack = Packer().pack


def key_hash(key: Any) -> int:
    """Return a 32-bit hash of a key. Raises SerializationError for a value that cannot be a key."""
    try:
        value = crc32(_pack(normalized_key(key)))
    except KEY_ERRORS as cause:
        raise SerializationError(
            f"a key of type {type(key).__name__} cannot be hashed: {cause}; a key is None, a "
            f"number, text, bytes, a date, a time, a time span, a UUID, a member of an "
            f"enumeration, or a tuple or frozen dataclass of these"
        ) from cause
    return int(mixed(value))


def mixed(value: Any) -> Any:
    """Spread a 32-bit hash over all of its bits (the last step of MurmurHash 3).

    ``value`` may be an array of hashes, which is changed in place.
    """
    value ^= value >> 16
    value = value * 0x85EBCA6B & 0xFFFFFFFF
    value ^= value >> 13
    value = value * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16


def key_group(key: Any, max_parallelism: int) -> int:
    """Return the key group of a key."""
    return key_hash(key) % max_parallelism


def check_key_groups(channels: int, max_parallelism: int) -> None:
    """Raise ConfigurationError unless there is a key group for every channel."""
    if channels > max_parallelism:
        raise ConfigurationError(
            f"a keyed exchange to {channels} subtasks has only {max_parallelism} key groups: raise "
            f"the maximum parallelism or lower the parallelism"
        )


def operator_index(group: int, max_parallelism: int, parallelism: int) -> int:
    """Return the subtask that owns a key group."""
    return group * parallelism // max_parallelism


def key_group_range(max_parallelism: int, parallelism: int, index: int) -> range:
    """Return the key groups that subtask ``index`` owns."""
    start = (index * max_parallelism + parallelism - 1) // parallelism
    end = ((index + 1) * max_parallelism - 1) // parallelism
    return range(start, end + 1)


def default_max_parallelism(parallelism: int) -> int:
    """Return Flink's default: the power of two over 1.5 times the parallelism, 128 to 32768."""
    wanted = parallelism + parallelism // 2
    power = 1 << max(wanted - 1, 0).bit_length()
    return min(max(power, 128), 32_768)

"""Reading and updating the state of a key, for each backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench.micro.workload import Workload
from flinknet.config import StateConfig
from flinknet.datastream import ValueStateDescriptor
from flinknet.state.keyed_state import KeyedState
from flinknet.state.keyed_state_backend import HeapKeyedStateBackend, KeyedStateBackend
from flinknet.state.value_serializer import ValueSerializer
from flinknet.state.value_state import ValueState

__all__ = ["STATE"]

KEYS = 50_000
CACHED = 1_000
KEYS_IN_USE = CACHED // 2
WRITE_BUFFER_BYTES = 256 << 10
"""So small that most of the state is in files."""


class Place(NamedTuple):
    """A backend, and the number of its keys that are requested in random order."""

    backend: str
    keys: int


@dataclass
class Key:
    """The context with the current key."""

    current_key: Any = None


class Filled(NamedTuple):
    """State with a value for every key."""

    value: ValueState
    key: Key
    directory: TemporaryDirectory[str]
    """The directory of the state, which is removed with this object."""


def make_update(place: Place, operations: int) -> Workload:
    """Return a workload that reads the value of a key and writes another over existing state."""
    filled = _filled(place.backend)
    value, key = filled.value, filled.key
    random = Random(operations)
    keys = [_key(random.randrange(place.keys)) for _ in range(operations)]
    before = _read(filled, keys)

    def run() -> None:
        for key.current_key in keys:
            count, mean = value.value()
            value.update((count + 1, mean))

    def verify() -> bool:
        return _read(filled, keys) == {
            one: before[one] + times for one, times in Counter(keys).items()
        }

    return Workload(operations, run, verify)


def _read(filled: Filled, keys: list[str]) -> dict[str, int]:
    counts = {}
    for filled.key.current_key in dict.fromkeys(keys):
        counts[filled.key.current_key] = filled.value.value()[0]
    return counts


def _key(number: int) -> str:
    return f"customer-{number}"


@cache
def _filled(backend: str) -> Filled:
    """Fill a backend once per process, because filling takes longer than measuring."""
    directory = TemporaryDirectory(prefix="bench-state-")
    key = Key()
    state = KeyedState(backend=_backend(backend, Path(directory.name)))
    value = state.state(ValueStateDescriptor("count"), key)
    for number in range(KEYS):
        key.current_key = _key(number)
        value.value()
        value.update((0, number / 7))
    return Filled(value, key, directory)


def _backend(name: str, directory: Path) -> KeyedStateBackend:
    if name == "heap":
        return HeapKeyedStateBackend()
    from flinknet.state.rocksdb.backend import RocksDBKeyedStateBackend

    return RocksDBKeyedStateBackend(
        directory / "state",
        "the benchmark",
        serializer=ValueSerializer(),
        max_parallelism=128,
        config=StateConfig(
            rocksdb_cached_entries_max=CACHED, rocksdb_write_buffer_bytes=WRITE_BUFFER_BYTES
        ),
    )


STATE: Mapping[str, Callable[[int], Workload]] = {
    "heap": partial(make_update, Place("heap", KEYS)),
    "rocksdb, in use": partial(make_update, Place("rocksdb", KEYS_IN_USE)),
    "rocksdb, on disk": partial(make_update, Place("rocksdb", KEYS)),
}

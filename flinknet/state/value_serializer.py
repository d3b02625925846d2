"""Serialisation of state values: as records, except that a list remains a list.

Lists in records arrive as tuples. A function continues to change a list in its state, so that list
must be restored as a list. It is written as an object of a class with a number that cannot be
registered (``record_types.py``). This holds anywhere in a value, also in a field of a registered
object. Restored bytes never name a class or a function, so they cannot run code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from flinknet.errors import SerializationError
from flinknet.records.serialization.c_unpacker import CUnpacker
from flinknet.records.serialization.extension_reader import ExtensionReader
from flinknet.records.serialization.extension_types import OBJECT, Pack, WriteExtension
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.record_types import RecordTypes, Registered

__all__ = ["StateSerializer", "ValueSerializer", "serializer_name"]

LIST_NUMBER = 2**32
"""One above the highest number that a class can be registered under."""

LENGTH_MAX = 2**32 - 1
"""msgpack's own limit: a checkpoint may be as large as the state was."""

_SCALARS = frozenset((type(None), bool, int, float, str, bytes))


class StateSerializer(Protocol):
    """Serializer of the values of one state, for values that cannot be written as records are.

    ``deserialize`` receives bytes from a checkpoint. If checkpoints are not trusted, it must not
    run code from them, as pickle would. Both methods are called on the worker's event loop.
    """

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a value."""

    def deserialize(self, data: bytes) -> Any:
        """Return the value."""


def serializer_name(serializer: StateSerializer | None) -> str | None:
    """Return the name of a serializer in checkpoints, its class; None for the form of records."""
    return None if serializer is None else type(serializer).__qualname__


class Listed(tuple[Any, ...]):
    """The elements of a list; the packer would pack the list itself as an array."""

    __slots__ = ()


class StateTypes(RecordTypes):
    """The registered classes, and lists."""

    def __init__(self, types: RecordTypes) -> None:
        super().__init__(types.numbered)
        self.writers = {kind: _with_lists(write) for kind, write in self.writers.items()}
        self.writers[Listed] = lambda value, pack: (OBJECT, pack((LIST_NUMBER, *value)))
        self._readers[OBJECT, LIST_NUMBER] = lambda content: list(content[1:])


class ValueSerializer:
    """Serializer of the values and keys of state.

    Args:
        types: The registered classes of the objects in values; see ``RecordTypes``.
    """

    def __init__(self, types: Registered = None) -> None:
        known = StateTypes(RecordTypes.of(types))
        packer = RecordPacker(known)
        self.encode, self.form, self.options = packer.encode, packer.form, packer.options
        self.direct = packer.direct
        """As in ``RecordPacker``, for values without a list in them."""
        self._pack_otherwise = packer.pack_otherwise
        self.unpack: Callable[[bytes | memoryview], Any] = _unpacker(known)
        """Returns the single value of a content; raises an Exception for an invalid content."""

    def pack(self, value: Any) -> bytes:
        """Return the bytes of a value. Raises SerializationError."""
        try:
            kind = type(value)
            if kind not in _SCALARS and not (
                kind is tuple and _SCALARS.issuperset(map(type, value))
            ):
                value = _marked(value)
            try:
                return self.encode(value, self.form, self.options)
            except TypeError:
                return self._pack_otherwise(value)
        except RecursionError as cause:
            raise SerializationError("its lists, tuples and dicts are nested too deep") from cause


def _unpacker(types: StateTypes) -> Callable[[bytes | memoryview], Any]:
    def read_extension(code: int, content: bytes) -> Any:
        return extensions.read(code, content)

    unpack = CUnpacker(LENGTH_MAX, LENGTH_MAX, read_extension).unpack
    extensions = ExtensionReader(types, unpack, LENGTH_MAX)
    return unpack


def _with_lists(write: WriteExtension) -> WriteExtension:
    """Return a writer that also writes the lists in the objects of a class."""

    def write_with_lists(value: Any, pack: Pack) -> tuple[int, bytes]:
        return write(value, lambda content: pack(_marked(content)))

    return write_with_lists


def _marked(value: Any) -> Any:
    """Return a value with ``Listed`` for each list in it."""
    kind = type(value)
    if kind is list:
        return Listed(value if _SCALARS.issuperset(map(type, value)) else map(_marked, value))
    if kind is tuple:
        if _SCALARS.issuperset(map(type, value)):
            return value
        return tuple(map(_marked, value))
    if kind is dict:
        if _SCALARS.issuperset(map(type, value.values())):
            return value
        return {key: _marked(part) for key, part in value.items()}
    return value

"""Serialising what is kept in state: as records are, but that a list stays a list.

Records that arrive have tuples where lists were sent. What a function keeps in state it goes on
changing, so a list must come back as one. It is written as an object of a class whose number nobody
can register (``record_types.py``), wherever it stands: also in a field of a registered object.
Nothing that is read names a class or a function, so nothing that is read can run code.
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
"""One more than the highest number that a class can be registered under."""

LENGTH_MAX = 2**32 - 1
"""What msgpack itself can express: a checkpoint is as large as the state was."""

_SCALARS = frozenset((type(None), bool, int, float, str, bytes))


class StateSerializer(Protocol):
    """How the values of one state are written, for values that cannot be written as records are.

    ``deserialize`` is called with bytes from a checkpoint: whoever cannot trust that must not have
    it run code, as pickle would. Both are called on the worker's event loop.
    """

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a value."""

    def deserialize(self, data: bytes) -> Any:
        """Return the value."""


def serializer_name(serializer: StateSerializer | None) -> str | None:
    """Return how checkpoints call a serializer: by its class; None for records' own form."""
    return None if serializer is None else type(serializer).__qualname__


class Listed(tuple[Any, ...]):
    """The elements of a list, for the packer, which would make an array of the list itself."""

    __slots__ = ()


class StateTypes(RecordTypes):
    """The registered classes, and lists."""

    def __init__(self, types: RecordTypes) -> None:
        super().__init__(types.numbered)
        self.writers = {kind: _with_lists(write) for kind, write in self.writers.items()}
        self.writers[Listed] = lambda value, pack: (OBJECT, pack((LIST_NUMBER, *value)))
        self._readers[OBJECT, LIST_NUMBER] = lambda content: list(content[1:])


class ValueSerializer:
    """Serialises the values and keys of state.

    Args:
        types: the classes whose objects may be in them, see ``RecordTypes``.
    """

    def __init__(self, types: Registered = None) -> None:
        known = StateTypes(RecordTypes.of(types))
        packer = RecordPacker(known)
        self.encode, self.form, self.options = packer.encode, packer.form, packer.options
        self.direct = packer.direct
        """As those of ``RecordPacker``, for values without a list in them."""
        self._pack_otherwise = packer.pack_otherwise
        self.unpack: Callable[[bytes | memoryview], Any] = _unpacker(known)
        """Returns the one value that a content is; raises an Exception if it is none."""

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
    """Have what a class's objects consist of written with its lists."""

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

"""Registered classes of records and of the objects in them, by number.

Both ends register the same classes under the same numbers, and only the number is sent. Received
bytes cannot name a class or cause an import. A class is registered as one of these:

- a *dataclass*: all its fields, including those without ``init`` or ``repr``, and nothing else. An
  object is created without a call of its ``__init__``, ``__new__`` or ``__post_init__``, as pickle
  does.
- a *named tuple*: its elements. It is also created without a call of its own code.
- a msgspec *Struct*: its fields. It is created by a call of its class, as pickle and msgspec's
  copying do, so its ``__post_init__`` runs again.
- an *enumeration*: the name of the member; for a Flag, its value.

An object of a class derived from a registered class is refused.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, Flag
from operator import attrgetter
from typing import Any, TypeAlias

from flinknet.errors import ConfigurationError
from flinknet.records.serialization.extension_types import MEMBER, OBJECT, Pack, WriteExtension

__all__ = ["RecordTypes", "Registered", "kind_of_class"]

_NUMBER_MAX = 2**32 - 1

Registered: TypeAlias = "RecordTypes | Sequence[type] | Mapping[int, type] | None"
"""The accepted arguments of ``RecordTypes.of``."""

Fields = Callable[[Any], tuple[Any, ...]]
Make = Callable[[tuple[Any, ...]], Any]


class RecordTypes:
    """Immutable registry of classes.

    Args:
        types: The classes, numbered from 0, or a mapping of number to class.

    Raises ConfigurationError for a class that cannot be registered.
    """

    def __init__(self, types: Sequence[type] | Mapping[int, type] = ()) -> None:
        numbered = types if isinstance(types, Mapping) else dict(enumerate(types))
        self.numbered: Mapping[int, type] = dict(numbered)
        self.writers: dict[type, WriteExtension] = {}
        self._readers: dict[tuple[int, int], Callable[[tuple[Any, ...]], Any]] = {}
        for number, kind in self.numbered.items():
            _check_number(number, kind)
            if kind in self.writers:
                raise ConfigurationError(f"{kind.__name__} is registered twice")
            self._register(number, kind)

    @classmethod
    def of(cls, types: Registered) -> RecordTypes:
        """Return the registry for ``types``."""
        if isinstance(types, RecordTypes):
            return types
        return cls(() if types is None else types)

    def read(self, code: int, content: Any) -> Any:
        """Return the object or member of the content of an extension.

        Raises ValueError, TypeError or LookupError if there is none.
        """
        if type(content) is not tuple or not content or type(content[0]) is not int:
            raise ValueError("its content does not begin with the number of a class")
        read = self._readers.get((code, content[0]))
        if read is None:
            raise ValueError(
                f"no class is registered here under number {content[0]}: register the producer's "
                f"classes, in its order, with env.register_type(...) or open_reader(types=[...])"
            )
        return read(content)

    def _register(self, number: int, kind: type) -> None:
        if issubclass(kind, Enum):
            self.writers[kind] = (
                _flag_writer(number) if issubclass(kind, Flag) else (_member_writer(number))
            )
            self._readers[MEMBER, number] = _member_reader(kind)
            return
        names, fields, make = _form_of(kind)
        self.writers[kind] = _object_writer(number, fields)
        self._readers[OBJECT, number] = _object_reader(kind, len(names), make)


def _check_number(number: Any, kind: Any) -> None:
    if type(number) is not int or not 0 <= number <= _NUMBER_MAX:
        raise ConfigurationError(
            f"a class cannot be registered under {number!r}: choose 0 to {_NUMBER_MAX}"
        )
    if not isinstance(kind, type):
        raise ConfigurationError(f"{kind!r} cannot be registered: it is not a class")


def kind_of_class(kind: type) -> str | None:
    """Return the kind that a class would be registered as; None if it cannot be."""
    if issubclass(kind, Enum):
        return "an enumeration"
    if _is_struct(kind):
        return "a Struct"
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return "a named tuple"
    if dataclasses.is_dataclass(kind):
        return "a dataclass"
    return None


def _is_struct(kind: type) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(kind, msgspec.Struct)


def _form_of(kind: type) -> tuple[tuple[str, ...], Fields, Make]:
    """Return the field names of a class, the function that reads them, and the constructor."""
    found = kind_of_class(kind)
    if found == "a dataclass":
        names = tuple(field.name for field in dataclasses.fields(kind))
        return names, _getter(names), _dataclass_maker(kind, names)
    if found == "a Struct":
        names = kind.__struct_fields__  # type: ignore[attr-defined]
        return names, _getter(names), lambda values: kind(**dict(zip(names, values, strict=True)))
    if found == "a named tuple":
        names = kind._fields  # type: ignore[attr-defined]
        return names, tuple, lambda values: tuple.__new__(kind, values)
    raise ConfigurationError(
        f"{kind.__name__} cannot be registered: it is not a dataclass, named tuple, enumeration or "
        "msgspec Struct"
    )


def _getter(names: tuple[str, ...]) -> Fields:
    if len(names) > 1:  # for one name, an attrgetter returns no tuple
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _dataclass_maker(kind: type, names: tuple[str, ...]) -> Make:
    # ``object.__setattr__`` also sets the fields of a frozen dataclass.
    new, set_field = object.__new__, object.__setattr__
    try:
        # This fails for a class that is derived from a built-in type, such as dict.
        new(kind)
    except TypeError as error:
        raise ConfigurationError(
            f"{kind.__name__} cannot be registered: it has state besides its fields ({error})"
        ) from error

    def make(values: tuple[Any, ...]) -> Any:
        made: Any = new(kind)
        for name, value in zip(names, values, strict=True):
            set_field(made, name, value)
        return made

    return make


def _object_writer(number: int, fields: Fields) -> WriteExtension:
    def write(value: Any, pack: Pack) -> tuple[int, bytes]:
        return OBJECT, pack((number, *fields(value)))

    return write


def _object_reader(kind: type, length: int, make: Make) -> Callable[[tuple[Any, ...]], Any]:
    def read(content: tuple[Any, ...]) -> Any:
        if len(content) != length + 1:
            raise ValueError(
                f"{len(content) - 1} fields arrived for {kind.__name__}, which has {length} fields "
                "here: both ends need the same class"
            )
        return make(content[1:])

    return read


def _member_writer(number: int) -> WriteExtension:
    def write(value: Any, pack: Pack) -> tuple[int, bytes]:
        return MEMBER, pack((number, value._name_))

    return write


def _flag_writer(number: int) -> WriteExtension:
    def write(value: Any, pack: Pack) -> tuple[int, bytes]:
        return MEMBER, pack((number, value._value_))

    return write


def _member_reader(kind: type[Enum]) -> Callable[[tuple[Any, ...]], Any]:
    def read(content: tuple[Any, ...]) -> Any:
        if len(content) == 2:
            name = content[1]
            if type(name) is str and name in kind.__members__:
                return kind.__members__[name]
            if type(name) is int and issubclass(kind, Flag):
                return kind(name)
        raise ValueError(
            f"the arrived value is not a member of {kind.__name__} here: {content[1:]!r:.99}"
        )

    return read

"""Conversions of values to a declared type, by a form that is built once per type.

Theory of operation. The type itself can convert a value (``convert``), but makes many checks per
value. Nearly every value already conforms to its type. Comparing the value with a *form* tells
this: a form has a kind, bounds, and the forms of the parts. A conforming value passes through as
the same object, as it would without a type. Another value is rebuilt where the form tells how: a
list from a tuple, a row from a tuple or a dict, a float from an int. ``convert`` handles every
other part, and every wrong part, so values and errors equal those of ``convert``.

In C a comparison takes some nanoseconds (``conversion.pyx``). This module serves plain Python, and
is the reference for changes of the C code. One difference remains: an error of a user's class that
is raised while its object is inspected may come from another line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isinf
from struct import Struct
from typing import Any, Final, Protocol, Self

__all__ = [
    "Conversion",
    "ConvertedKey",
    "ConvertedRecords",
    "anything",
    "characters",
    "exactly",
    "floats",
    "integers",
    "lists",
    "maps",
    "reals",
    "rows",
    "tuples",
    "unknown",
]

_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")

_ROW_KINDS: Final = range(4)

Fits = Callable[[Any], bool]


class Convertible(Protocol):
    """A declared type."""

    def convert(self, value: Any) -> Any:
        """Return the value as the type requires."""

    def conversion(self) -> Conversion:
        """Return the conversion of the type."""


class Conversion:
    """Conversion of values to one type. It is pickled as its type.

    Args:
        kind: The type. Its ``convert`` handles the values that no form is known for.
        fits: Returns whether a value already conforms to the type.
        make: Returns a value rebuilt for the type; None if only ``convert`` can tell.
    """

    __slots__ = ("_make", "_otherwise", "fits", "kind")

    def __init__(self, kind: Convertible, fits: Fits, make: Callable[[Any], Any]) -> None:
        self.kind = kind
        self.fits = fits
        """Returns whether the conversion would return a value itself."""
        self._make = make
        self._otherwise = kind.convert

    def __call__(self, value: Any, /) -> Any:
        """Return the value as the type requires. Raises the errors of ``convert``."""
        if self.fits(value):
            return value
        made = self._make(value)
        return self._otherwise(value) if made is None else made

    def each(self, records: Iterable[Any]) -> list[Any]:
        """Return all records as the type requires; the same list if all already conform."""
        if type(records) is list and all(map(self.fits, records)):
            return records
        return [self(record) for record in records]

    def as_they_come(self, records: Iterable[Any]) -> ConvertedRecords:
        """Return an iterator that converts each record when it is requested."""
        return ConvertedRecords(self, records)

    def __reduce__(self) -> tuple[Any, ...]:
        return conversion_of, (self.kind,)


class ConvertedRecords:
    """Iterator that converts records one by one.

    Only one converted record exists at a time. A batch of lists would make the garbage collector
    scan all of them.

    Args:
        conversion: The conversion of the records.
        records: The iterable of records; iterated once.
    """

    __slots__ = ("_conversion", "_records", "last")

    def __init__(self, conversion: Conversion, records: Iterable[Any]) -> None:
        self._conversion = conversion
        self._records = iter(records)
        self.last: Any = None
        """The record that was returned last; None before the first."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self.last = self._conversion(next(self._records))
        return self.last


class ConvertedKey:
    """Key selector with keys converted to their declared type.

    Args:
        key: The key selector.
        conversion: The conversion of the keys.
    """

    __slots__ = ("conversion", "key")

    def __init__(self, key: Callable[[Any], Any], conversion: Conversion) -> None:
        self.key = key
        self.conversion = conversion

    def __call__(self, record: Any, /) -> Any:
        """Return the key of a record."""
        return self.conversion(self.key(record))

    def __reduce__(self) -> tuple[Any, ...]:
        return ConvertedKey, (self.key, self.conversion)


def conversion_of(kind: Convertible) -> Conversion:
    """Return the conversion of a type; unpickling a conversion calls this."""
    return kind.conversion()


def _unknown(value: Any) -> None:
    """Return None: the type's ``convert`` handles the value."""


def unknown(kind: Convertible) -> Conversion:
    """Return the conversion of a type that is known only by its ``convert``."""
    return Conversion(kind, lambda value: False, _unknown)


def anything(kind: Convertible) -> Conversion:
    """Return the conversion of a type that accepts every value."""
    return Conversion(kind, lambda value: True, _unknown)


def exactly(kind: Convertible, class_: type) -> Conversion:
    """Return the conversion of a type whose values are the objects of exactly one class."""
    return Conversion(kind, lambda value: type(value) is class_, _unknown)


def integers(kind: Convertible, lowest: int, highest: int) -> Conversion:
    """Return the conversion of a type of integers within bounds."""
    return Conversion(
        kind, lambda value: type(value) is int and lowest <= value <= highest, _unknown
    )


def reals(kind: Convertible) -> Conversion:
    """Return the conversion of a type of floats."""
    return Conversion(kind, lambda value: type(value) is float, _real)


def _real(value: Any) -> float | None:
    try:
        return float(value) if type(value) is int else None
    except OverflowError:
        return None


def floats(kind: Convertible) -> Conversion:
    """Return the conversion of a type of 32-bit floats."""

    def make(value: Any) -> float | None:
        real = value if type(value) is float else _real(value)
        rounded = None if real is None else _rounded(real)
        return None if rounded is None or rounded != rounded or isinf(rounded) else rounded

    def fits(value: Any) -> bool:
        if type(value) is not float:
            return False
        rounded = _rounded(value)
        # Compared bit by bit, because a NaN does not equal itself.
        return rounded is not None and _DOUBLE.pack(rounded) == _DOUBLE.pack(value)

    return Conversion(kind, fits, make)


def _rounded(real: float) -> float | None:
    """Return the nearest 32-bit float; None if there is none."""
    try:
        number: float = _FLOAT.unpack(_FLOAT.pack(real))[0]
    except OverflowError:
        return None
    return number


def characters(kind: Convertible) -> Conversion:
    """Return the conversion of a type of texts of one character."""
    return Conversion(kind, lambda value: type(value) is str and len(value) == 1, _unknown)


def tuples(kind: Convertible, parts: Iterable[Conversion], row: Any) -> Conversion:
    """Return the conversion of a type of tuples.

    ``row`` is the class of rows, which may become tuples. Parts may be None.
    """
    own = tuple(parts)

    def make(value: Any) -> tuple[Any, ...] | None:
        given = _values_of(value, row)
        return None if given is None or len(given) != len(own) else tuple(_made_parts(own, given))

    return Conversion(kind, lambda value: type(value) is tuple and _parts_fit(own, value), make)


def rows(
    kind: Convertible, parts: Iterable[Conversion], names: Iterable[str], row: Any
) -> Conversion:
    """Return the conversion of a type of rows, the objects of the class ``row``.

    Values may be None.
    """
    own, fields = tuple(parts), tuple(names)
    if len(own) != len(fields):
        raise ValueError("a row has a name for each of its values")

    def make(value: Any) -> Any:
        row_kind = 0
        if type(value) is row:
            row_kind = value._kind
            if type(row_kind) is not int or row_kind not in _ROW_KINDS:
                return None
        given = _values_for_row(value, row, fields)
        if given is None or len(given) != len(own):
            return None
        # Without ``__init__``, which takes values or named values, and no kind.
        made = row.__new__(row)
        vars(made).update(_values=_made_parts(own, given), _fields=fields, _kind=row_kind)
        return made

    def fits(value: Any) -> bool:
        return (
            type(value) is row
            and type(value._fields) in (tuple, list)
            and tuple(value._fields) == fields
            and type(value._values) in (tuple, list)
            and _parts_fit(own, value._values)
        )

    return Conversion(kind, fits, make)


def lists(kind: Convertible, element: Conversion, may_have_none: bool) -> Conversion:
    """Return the conversion of a type of lists.

    ``may_have_none`` tells whether elements may be None.
    """
    element_fits = element.fits

    def fits(value: Any) -> bool:
        return type(value) is list and all(
            (one is None and may_have_none) or element_fits(one) for one in value
        )

    def make(value: Any) -> list[Any] | None:
        if type(value) is not list and not _is_iterated_as_tuple(value):
            return None
        return [None if one is None and may_have_none else element(one) for one in value]

    return Conversion(kind, fits, make)


def maps(kind: Convertible, key: Conversion, value: Conversion) -> Conversion:
    """Return the conversion of a type of dicts. Values may be None."""
    key_fits, value_fits = key.fits, value.fits

    def fits(given: Any) -> bool:
        return type(given) is dict and all(
            key_fits(name) and (one is None or value_fits(one)) for name, one in given.items()
        )

    def make(given: Any) -> dict[Any, Any] | None:
        if type(given) is not dict:
            return None
        return {key(name): None if one is None else value(one) for name, one in given.items()}

    return Conversion(kind, fits, make)


def _is_iterated_as_tuple(value: Any) -> bool:
    """Return whether a value is a tuple with the standard iteration."""
    return isinstance(value, tuple) and type(value).__iter__ is tuple.__iter__


def _values_of(value: Any, row: Any) -> Sequence[Any] | None:
    """Return the values of a tuple, a list or a row; None for another value.

    A tuple or row with an iteration of its own counts as another value.
    """
    if type(value) is list or _is_iterated_as_tuple(value):
        return tuple(tuple.__iter__(value)) if isinstance(value, tuple) else tuple(value)
    if type(value) is row and type(value._values) in (tuple, list):
        return tuple(value._values)
    return None


def _values_for_row(value: Any, row: Any, fields: Sequence[str]) -> Sequence[Any] | None:
    """Return the values for the fields of a row; None if finding them takes ``convert``."""
    if type(value) is row:
        given, own = _values_of(value, row), value._fields
        if given is None or own is None or tuple(own) == fields:
            return given
        if len(own) != len(given):
            return None
        return _values_by_name(dict(zip(own, given, strict=True)), fields)
    if isinstance(value, tuple | list):
        return _values_of(value, row)
    if isinstance(value, row):
        return None
    if isinstance(value, dict):
        return _values_by_name(value, fields)
    return _values_by_name(getattr(value, "__dict__", None), fields)


def _values_by_name(given: Any, fields: Sequence[str]) -> Sequence[Any] | None:
    """Return the values of a dict by the names of a row, with None for a missing name.

    Return None if ``given`` is not a plain dict.
    """
    return tuple(map(given.get, fields)) if type(given) is dict else None


def _parts_fit(parts: Sequence[Conversion], values: Sequence[Any]) -> bool:
    return len(values) == len(parts) and all(
        value is None or part.fits(value) for part, value in zip(parts, values, strict=True)
    )


def _made_parts(parts: Sequence[Conversion], values: Sequence[Any]) -> list[Any]:
    pairs = zip(parts, values, strict=True)
    return [None if value is None else part(value) for part, value in pairs]

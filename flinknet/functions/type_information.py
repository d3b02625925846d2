"""Types that a program declares for records: PyFlink's TypeInformation and Types.

Values carry their own types, so a program need not declare any, and an undeclared type costs
nothing. A declared type is enforced. Where records leave an operator, each one is converted to the
declared type: a tuple becomes a Row with names, an int becomes a float, and a float is rounded to
32 bits. A record that cannot be converted is an error that names the operator. A list arrives at
the next operator as a tuple, so types that contain lists or arrays convert it back where records
come in.

``convert`` defines the effect of a type on one value, and it is idempotent. Records go through a
``Conversion`` instead (``records/conversion.py``). It has the same effect, but passes on a value
that already has the right type as the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from operator import index
from struct import Struct
from typing import Any

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.compatibility.subscripted import A, B, Subscripted, T, T_co
from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Instant
from flinknet.functions.row import Row
from flinknet.records import conversion as forms
from flinknet.records.conversion import Conversion

__all__ = [
    "BasicArrayTypeInfo",
    "BasicTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "converter",
]

Convert = Callable[[Any], Any]


class TypeInformation(PyFlinkNames, Subscripted[T_co]):
    """The declared type of the records of a stream."""

    name = "any"
    has_lists = False
    """Whether the type contains lists, which arrive as tuples."""
    is_unchanging = False
    """Whether values of the type are immutable, so that they never need a copy."""

    def convert(self, value: Any) -> Any:
        """Return the value converted to this type.

        Raises TypeError or ValueError if it cannot be converted.
        """
        raise NotImplementedError

    def conversion(self) -> Conversion:
        """Return a conversion with the effect of ``convert``.

        It returns a value that already has the right type as the same object.
        """
        make = _CONVERSIONS.get(type(self))
        return forms.unknown(self) if make is None else make(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(repr(self))  # the attributes are lists in part

    def __repr__(self) -> str:
        return self.name

    def _refuse(self, value: Any) -> TypeError:
        return TypeError(f"{value!r:.80} of type {type(value).__name__} is no {self!r}")


class PickledBytesTypeInfo(TypeInformation):
    """Any record; the type of a stream with no declared type."""

    name = "PickledByteArrayTypeInfo"

    def convert(self, value: Any) -> Any:
        """Return the value."""
        return value


_FLOAT = Struct("<f")


def _integer(value: Any, lowest: int, highest: int) -> int:
    number = index(value)  # takes numpy's integers, but no floats
    if not lowest <= number <= highest:
        raise ValueError(f"{number} is not between {lowest} and {highest}")
    return number


def _real(value: Any) -> float:
    # ``float`` alone would also parse text.
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"{value!r:.80} is no number")
    return float(value)


def _float32(value: Any) -> float:
    """Return the nearest number that fits in 32 bits."""
    number: float = _FLOAT.unpack(_FLOAT.pack(_real(value)))[0]
    return number


def _boolean(value: Any) -> bool:
    # By name, so that numpy's booleans count without an import of numpy.
    if type(value) is not bool and type(value).__name__ not in ("bool_", "bool"):
        raise TypeError(f"{value!r:.80} is no bool")
    return bool(value)


def _big_decimal(value: Any) -> Decimal:
    return value if type(value) is Decimal else Decimal(index(value))


def _character(value: Any) -> str:
    if type(value) is not str or len(value) != 1:
        raise TypeError(f"{value!r:.80} is no single character")
    return value


def _exactly(kind: type) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r:.80} of type {type(value).__name__} is no {kind.__name__}")
        return value

    return convert


def _bounds(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _within(bits: int) -> Convert:
    lowest, highest = _bounds(bits)
    return lambda value: _integer(value, lowest, highest)


_BASIC: dict[str, Convert] = {
    "String": _exactly(str),
    "Byte": _within(8),
    "Boolean": _boolean,
    "Short": _within(16),
    "Integer": _within(32),
    "Long": _within(64),
    "Float": _float32,
    "Double": _real,
    "Char": _character,
    "BigInteger": index,
    "BigDecimal": _big_decimal,
    "Instant": _exactly(Instant),
    "Date": _exactly(date),
    "Time": _exactly(time),
    "Timestamp": _exactly(datetime),
}


_INTEGER_BITS = {"Byte": 8, "Short": 16, "Integer": 32, "Long": 64}

_CLASSES: dict[str, type] = {
    "String": str,
    "Boolean": bool,
    "BigInteger": int,
    "BigDecimal": Decimal,
    "Instant": Instant,
    "Date": date,
    "Time": time,
    "Timestamp": datetime,
}
"""The exact class of the values of a basic type."""


class BasicTypeInfo(TypeInformation[T_co]):
    """The type of a single value: a number, a string or a time."""

    is_unchanging = True

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any) -> Any:
        """Return the value converted to the type."""
        try:
            return _BASIC[self.name](value)
        except (TypeError, OverflowError) as error:
            raise TypeError(f"{error}, but the type is {self.name}") from None
        except ValueError as error:
            raise ValueError(f"{error}, but the type is {self.name}") from None


class _Composite(TypeInformation[T_co]):
    """A type with several fields, each of which may be None."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._types = [_checked(one) for one in field_types]
        self.has_lists = any(one.has_lists for one in self._types)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self._types)

    def _converted(self, values: Iterable[Any]) -> list[Any]:
        given = list(values)
        if len(given) != len(self._types):
            raise ValueError(f"{len(given)} values for the {len(self._types)} fields of {self!r}")
        pairs = zip(self._types, given, strict=True)
        return [None if one is None else kind.convert(one) for kind, one in pairs]

    def _names(self) -> str:
        return ", ".join(map(repr, self._types))


class RowTypeInfo(_Composite[Row]):
    """Rows: values with names, by default ``f0``, ``f1`` and so on."""

    def __init__(
        self,
        field_types: Sequence[TypeInformation],
        field_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(field_types)
        names = [f"f{number}" for number in range(len(self._types))]
        self._fields = names if field_names is None else list(field_names)
        if len(self._fields) != len(self._types) or len(set(self._fields)) != len(self._fields):
            raise ConfigurationError(
                f"a row has {len(self._types)} fields, but the names {self._fields}: give each "
                "field a different name"
            )
        self._make = Row(*self._fields)  # a row of names, called with values, makes a row

    def get_field_names(self) -> list[str]:
        """Return the field names."""
        return list(self._fields)

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field; ValueError if the row has no such field."""
        return self._fields.index(field_name)

    def convert(self, value: Any) -> Row:
        """Convert a row, a tuple, a list, a dict, or an object's attributes to a Row."""
        values: Iterable[Any]
        if isinstance(value, Row):
            named = value.field_names()
            values = value if named is None else map(value.as_dict().get, self._fields)
        elif isinstance(value, tuple | list):
            values = value
        elif isinstance(value, dict):
            values = map(value.get, self._fields)
        elif hasattr(value, "__dict__"):
            values = map(vars(value).get, self._fields)
        else:
            raise self._refuse(value)
        row = self._make(*self._converted(values))
        if isinstance(value, Row):
            row.set_row_kind(value.get_row_kind())
        return row

    def __repr__(self) -> str:
        fields = zip(self._fields, self._types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {kind!r}' for name, kind in fields)})"


class TupleTypeInfo(_Composite[tuple[Any, ...]]):
    """Tuples."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        super().__init__(field_types)
        self.is_unchanging = all(one.is_unchanging for one in self._types)

    def convert(self, value: Any) -> tuple[Any, ...]:
        """Convert a tuple, a list or a row to a tuple."""
        if not isinstance(value, tuple | list | Row):
            raise self._refuse(value)
        return tuple(self._converted(value))

    def __repr__(self) -> str:
        return f"TupleTypeInfo({self._names()})"


class ListTypeInfo(TypeInformation[list[T]], Subscripted[T]):
    """Lists; elements may be None."""

    has_lists = True
    elements_may_be_none = True

    def __init__(self, element_type: TypeInformation[T]) -> None:
        self.element_type = _checked(element_type)

    def convert(self, value: Any) -> Any:
        """Convert a list or a tuple to a list."""
        if not isinstance(value, list | tuple):
            raise self._refuse(value)
        one = self.element_type.convert
        if not self.elements_may_be_none:
            return [one(element) for element in value]
        return [None if element is None else one(element) for element in value]

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.element_type!r}>"


class PrimitiveArrayTypeInfo(ListTypeInfo):
    """Lists of numbers without None; an array of bytes is ``bytes``."""

    elements_may_be_none = False

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        numbers = ("Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "Char")
        if element_type.name not in numbers:
            raise ConfigurationError(f"{element_type!r} cannot be an element of a primitive array")
        self._is_bytes = element_type.name == "Byte"
        self.has_lists = not self._is_bytes
        self.is_unchanging = self._is_bytes

    def convert(self, value: Any) -> Any:
        """Return a list, or bytes for an array of bytes."""
        if self._is_bytes:
            if not isinstance(value, bytes | bytearray):
                raise self._refuse(value)
            return bytes(value)
        return super().convert(value)


class BasicArrayTypeInfo(ListTypeInfo):
    """Lists of numbers or strings."""

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        if not isinstance(element_type, BasicTypeInfo):
            raise ConfigurationError(f"{element_type!r} cannot be an element of a basic array")


class ObjectArrayTypeInfo(ListTypeInfo):
    """Lists of any objects."""


class MapTypeInfo(TypeInformation[dict[A, B]], Subscripted[A, B]):
    """Dicts; values may be None."""

    def __init__(
        self, key_type_info: TypeInformation[A], value_type_info: TypeInformation[B]
    ) -> None:
        self._key, self._value = _checked(key_type_info), _checked(value_type_info)
        self.has_lists = self._value.has_lists  # a list cannot be a key

    def convert(self, value: Any) -> dict[Any, Any]:
        """Convert the keys and values of a dict."""
        if not isinstance(value, dict):
            raise self._refuse(value)
        key, one = self._key.convert, self._value.convert
        return {key(k): None if v is None else one(v) for k, v in value.items()}

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key!r}, {self._value!r}>"


def _basic(name: str, kind: type[T]) -> staticmethod[[], BasicTypeInfo[T]]:
    """Return a constructor of a basic type, whose values are of a class."""
    return staticmethod(lambda: BasicTypeInfo(name))


class Types:
    """Constructors of types, with PyFlink's names."""

    STRING = _basic("String", str)
    BYTE = _basic("Byte", int)
    BOOLEAN = _basic("Boolean", bool)
    SHORT = _basic("Short", int)
    INT = _basic("Integer", int)
    LONG = _basic("Long", int)
    FLOAT = _basic("Float", float)
    DOUBLE = _basic("Double", float)
    CHAR = _basic("Char", str)
    BIG_INT = _basic("BigInteger", int)
    BIG_DEC = _basic("BigDecimal", Decimal)
    INSTANT = _basic("Instant", Instant)
    SQL_DATE = _basic("Date", date)
    SQL_TIME = _basic("Time", time)
    SQL_TIMESTAMP = _basic("Timestamp", datetime)
    PICKLED_BYTE_ARRAY = staticmethod(PickledBytesTypeInfo)

    @staticmethod
    def ROW(field_types: list[TypeInformation]) -> RowTypeInfo:  # noqa: N802 - PyFlink's name
        """Return a type of rows with the field names f0, f1, ..."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(  # noqa: N802 - PyFlink's name
        field_names: list[str], field_types: list[TypeInformation]
    ) -> RowTypeInfo:
        """Return a type of rows with given field names."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TupleTypeInfo:  # noqa: N802 - PyFlink's name
        """Return a type of tuples."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(  # noqa: N802 - PyFlink's name
        element_type: TypeInformation,
    ) -> PrimitiveArrayTypeInfo:
        """Return a type of lists of numbers without None; ``bytes`` for an array of bytes."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:  # noqa: N802 - PyFlink's
        """Return a type of lists of numbers or strings."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:  # noqa: N802 - PyFlink's
        """Return a type of lists of any objects."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(  # noqa: N802 - PyFlink's name
        key_type_info: TypeInformation[A], value_type_info: TypeInformation[B]
    ) -> MapTypeInfo[A, B]:
        """Return a type of dicts."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation[T]) -> ListTypeInfo[T]:  # noqa: N802 - PyFlink's name
        """Return a type of lists."""
        return ListTypeInfo(element_type_info)


def _any_conversion(kind: PickledBytesTypeInfo) -> Conversion:
    return forms.anything(kind)


def _basic_conversion(kind: BasicTypeInfo) -> Conversion:
    name = kind.name
    if name in _INTEGER_BITS:
        return forms.integers(kind, *_bounds(_INTEGER_BITS[name]))
    if name in _CLASSES:
        return forms.exactly(kind, _CLASSES[name])
    others = {"Double": forms.reals, "Float": forms.floats, "Char": forms.characters}
    return others.get(name, forms.unknown)(kind)


def _array_conversion(kind: PrimitiveArrayTypeInfo) -> Conversion:
    return _list_conversion(kind) if kind.has_lists else forms.exactly(kind, bytes)


def _list_conversion(kind: ListTypeInfo) -> Conversion:
    return forms.lists(kind, kind.element_type.conversion(), kind.elements_may_be_none)


def _map_conversion(kind: MapTypeInfo) -> Conversion:
    return forms.maps(kind, kind._key.conversion(), kind._value.conversion())


def _tuple_conversion(kind: TupleTypeInfo) -> Conversion:
    return forms.tuples(kind, [one.conversion() for one in kind.get_field_types()], Row)


def _row_conversion(kind: RowTypeInfo) -> Conversion:
    parts = [one.conversion() for one in kind.get_field_types()]
    return forms.rows(kind, parts, kind.get_field_names(), Row)


_CONVERSIONS: dict[type, Callable[[Any], Conversion]] = {
    PickledBytesTypeInfo: _any_conversion,
    BasicTypeInfo: _basic_conversion,
    RowTypeInfo: _row_conversion,
    TupleTypeInfo: _tuple_conversion,
    ListTypeInfo: _list_conversion,
    PrimitiveArrayTypeInfo: _array_conversion,
    BasicArrayTypeInfo: _list_conversion,
    ObjectArrayTypeInfo: _list_conversion,
    MapTypeInfo: _map_conversion,
}
"""Keyed by exact class, because a derived class may convert differently."""


def converter(type_info: TypeInformation | None) -> Conversion | None:
    """Return the conversion for a declared type; None if there is nothing to convert.

    Raises ConfigurationError if ``type_info`` is not a type.
    """
    if type_info is None or isinstance(_checked(type_info), PickledBytesTypeInfo):
        return None
    return type_info.conversion()


def _checked(type_info: Any) -> TypeInformation:
    if not isinstance(type_info, TypeInformation):
        raise ConfigurationError(
            f"{type_info!r} is not a type: use one of Types, such as Types.INT()"
        )
    return type_info

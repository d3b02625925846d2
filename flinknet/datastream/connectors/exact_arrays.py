"""Conversion of Python values to Arrow arrays without loss.

``pyarrow.array(values, type)`` truncates a value that the type cannot hold: 1.9 to 1, a date and
time to a date, a dict to the fields of a struct. So the values first become an array of the type
that pyarrow infers. That array is exact unless it mixes kinds of times, or strings and bytes, or is
nested. Then it is cast, which Arrow checks, and cast back, which must give the same array again.
All of this runs over whole columns, in C++.

Only a column that fails, is nested, or holds unusual values is compared value by value with the
values that Python reads back. This comparison decides, and finds the value to name in the error.

A float may be rounded to ``float`` (32 bits) or ``halffloat``, because a program that declares the
type asks for it. It must not become infinite.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

from flinknet.texts import text_of

# pyarrow is optional, so it is imported where it is used.
if TYPE_CHECKING:
    import pyarrow

__all__ = ["InexactError", "are_alike", "cast_exactly", "exact_array"]

REMEDY = "convert the value first, or give the column another type"


class InexactError(ValueError):
    """A value that its type cannot hold; ``index`` is its position in the column."""

    def __init__(self, index: int, value: Any, kind: pyarrow.DataType, reason: str) -> None:
        shown = text_of(repr(value), 200)
        super().__init__(f"{shown} is not exactly a value of the type {kind}: {reason}; {REMEDY}")
        self.index = index


def exact_array(values: Sequence[Any], kind: pyarrow.DataType | None) -> pyarrow.Array:
    """Return an exact array of a type; None stands for the type that pyarrow infers.

    Raises InexactError if the type would change a value.
    """
    import pyarrow

    try:
        natural = pyarrow.array(values)
    except Exception:
        return _compared(values, kind if kind is not None else _kind_of_first(values))
    # pyarrow returns a ChunkedArray for values that do not fit into one array.
    if not isinstance(natural, pyarrow.Array) or not _holds(natural.type, values):
        return _compared(values, kind if kind is not None else natural.type)
    if kind is None or natural.type.equals(kind):
        return natural
    if are_alike(natural.type, kind) or _are_numbers(natural.type, kind):
        try:
            return cast_exactly(natural, kind)
        except InexactError:
            pass  # compared below, to report the value as the program wrote it
    return _compared(values, kind)


def cast_exactly(array: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the array cast to another type; InexactError if the cast would change a value."""
    import pyarrow

    if array.type.equals(kind):
        return array
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not len(array) or pyarrow.types.is_null(array.type):
        return array.cast(kind)
    back = _cast_back(array, kind)
    if back is None or not _is_same(back, array):
        _raise_first(array, kind)
    return array.cast(kind)


def _cast_back(array: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array | None:
    """Return the array cast to the type and back; None if the cast loses information."""
    import pyarrow
    import pyarrow.compute

    types = pyarrow.types
    are_times = types.is_timestamp(array.type) and types.is_timestamp(kind)
    # A time without a zone is no point in time, so only nulls have a counterpart.
    if are_times and (array.type.tz is None) != (kind.tz is None):
        return None if array.null_count < len(array) else array
    try:
        cast = array.cast(kind)
        if types.is_dictionary(kind):
            cast = cast.dictionary_decode()
        if types.is_floating(array.type) and types.is_floating(kind):
            is_inf = pyarrow.compute.is_inf
            return array if is_inf(cast).equals(is_inf(array)) else None
        return cast.cast(array.type, safe=False)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, pyarrow.ArrowTypeError):
        return None


def _is_same(back: pyarrow.Array, array: pyarrow.Array) -> bool:
    import pyarrow
    import pyarrow.compute

    if back.equals(array):
        return True
    if not pyarrow.types.is_floating(array.type):
        return False
    # NaN does not equal NaN.
    is_nan = pyarrow.compute.is_nan
    number = is_nan(array).fill_null(False)
    same = pyarrow.compute.if_else(number, is_nan(back), pyarrow.compute.equal(back, array))
    all_same: bool = pyarrow.compute.all(same.fill_null(True)).as_py()
    return all_same and back.is_null().equals(array.is_null())


def _raise_first(array: pyarrow.Array, kind: pyarrow.DataType) -> None:
    """Raise InexactError for the first value that the cast would change."""
    low, high = 0, len(array)
    # Binary search for the first value that fails.
    while high - low > 1:
        middle = (low + high) // 2
        back = _cast_back(array.slice(low, middle - low), kind)
        if back is None or not _is_same(back, array.slice(low, middle - low)):
            high = middle
        else:
            low = middle
    try:
        reason = f"converted to that type, it is {array.slice(low, 1).cast(kind)[0]}"
    except Exception as error:
        reason = text_of(error, 200)
    raise InexactError(low, _shown(array, low), kind, reason)


def _shown(array: pyarrow.Array, index: int) -> Any:
    try:
        return array[index].as_py()
    except Exception:  # a time that Python cannot represent
        return array[index]


def _kind_of_first(values: Sequence[Any]) -> pyarrow.DataType:
    """Return the type of the first value, for values without a common type."""
    import pyarrow

    first = next((value for value in values if value is not None), None)
    try:
        return pyarrow.array([first]).type
    except Exception as error:
        raise InexactError(values.index(first), first, pyarrow.null(), text_of(error)) from error


def _holds(natural: pyarrow.DataType, values: Sequence[Any]) -> bool:
    """Return whether an array of the inferred type is certain to hold the values exactly."""
    import pyarrow

    types = pyarrow.types
    if types.is_string(natural) or types.is_integer(natural) or types.is_null(natural):
        return True
    if types.is_boolean(natural) or types.is_floating(natural) or types.is_decimal(natural):
        return True
    present = set(map(type, values)) - {type(None)}
    if types.is_binary(natural):
        return present == {bytes}
    if types.is_date32(natural):
        return present == {date}
    if types.is_duration(natural):
        return present == {timedelta}
    if types.is_timestamp(natural) or types.is_time(natural):
        zones = {value.tzinfo is None for value in values if type(value) in (datetime, time)}
        return (present, zones) in (
            ({datetime}, {natural.tz is None if present == {datetime} else True}),
            ({time}, {True}),
        )
    return False


def are_alike(one: pyarrow.DataType, other: pyarrow.DataType) -> bool:
    """Return whether values of the two types have the same Python type.

    Such types differ only in storage. A cast between them never turns text into numbers, or numbers
    into times.
    """
    import pyarrow

    types = pyarrow.types
    if types.is_dictionary(one):
        return are_alike(one.value_type, other)
    if types.is_dictionary(other):
        return are_alike(one, other.value_type)
    if one.equals(other) or types.is_null(one) or types.is_null(other):
        return True
    if types.is_timestamp(one) and types.is_timestamp(other):
        return bool((one.tz is None) == (other.tz is None))
    return any(all(map(is_kind, (one, other))) for is_kind in _alike())


def _alike() -> list[Callable[[pyarrow.DataType], bool]]:
    """Return one predicate on types for each kind of type."""
    from pyarrow import types

    def is_text(kind: pyarrow.DataType) -> bool:
        forms = types.is_string, types.is_large_string, types.is_string_view
        return any(is_form(kind) for is_form in forms)

    def is_bytes(kind: pyarrow.DataType) -> bool:
        forms = types.is_binary, types.is_large_binary, types.is_binary_view
        return any(is_form(kind) for is_form in (*forms, types.is_fixed_size_binary))

    return [
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_date,
        types.is_time,
        types.is_duration,
        is_text,
        is_bytes,
    ]


def _are_numbers(*kinds: pyarrow.DataType) -> bool:
    from pyarrow import types

    return all(types.is_integer(kind) or types.is_floating(kind) for kind in kinds)


def _compared(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    """Convert the values to the type, and compare the result with them one by one."""
    import pyarrow

    try:
        array = pyarrow.array(values, type=kind)
        held = array.to_pylist()
    except Exception as error:
        # Find the first prefix that fails, because a value may fail only together with others.
        index = bisect_left(
            range(len(values)), True, key=lambda end: not _is_taken(values[: end + 1], kind)
        )
        raise InexactError(index, values[index], kind, text_of(error, 200)) from error
    for index, (value, as_held) in enumerate(zip(values, held, strict=True)):
        if not _is_equal(value, as_held, kind):
            raise InexactError(
                index, value, kind, f"converted to that type, it is {text_of(repr(as_held), 200)}"
            )
    return array


def _is_taken(values: Sequence[Any], kind: pyarrow.DataType) -> bool:
    import pyarrow

    try:
        pyarrow.array(values, type=kind).to_pylist()
    except Exception:
        return False
    return True


def _is_equal(value: Any, held: Any, kind: pyarrow.DataType) -> bool:
    """Return whether the converted value equals the original.

    ``1`` equals ``1.0``, and a list equals a tuple.
    """
    import pyarrow

    types = pyarrow.types
    if value is None or held is None:
        return value is held
    if types.is_dictionary(kind):
        return _is_equal(value, held, kind.value_type)
    if types.is_struct(kind):
        return _is_equal_struct(value, held, kind)
    if types.is_map(kind):
        pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
        return len(pairs) == len(held) and all(
            _is_equal(pair[0], other[0], kind.key_type)
            and _is_equal(pair[1], other[1], kind.item_type)
            for pair, other in zip(pairs, held, strict=True)
        )
    if types.is_nested(kind):
        items = value.tolist() if hasattr(value, "tolist") else list(value)
        return len(items) == len(held) and all(
            _is_equal(item, other, kind.value_type) for item, other in zip(items, held, strict=True)
        )
    if types.is_floating(kind):
        if isnan(value) or isnan(held):
            return isnan(value) and isnan(held)
        # A program that declares a narrower float asks for rounding.
        narrow = kind.bit_width < 64
        return isinf(value) == isinf(held) if narrow else bool(value == held)
    if isinstance(held, date) and isinstance(value, date):
        return _moment(value) == _moment(held)
    if isinstance(value, bytearray | memoryview):
        value = bytes(value)
    return bool(value == held)


def _is_equal_struct(value: Any, held: dict[str, Any], kind: pyarrow.DataType) -> bool:
    members = dict(value) if isinstance(value, Mapping) else None
    if members is None:
        items = list(value)
        if len(items) != kind.num_fields:
            return False
        members = {
            kind.field(place).name: item[1] if isinstance(item, tuple) and len(item) == 2 else item
            for place, item in enumerate(items)
        }
    if members.keys() - held.keys():
        return False
    return all(_is_equal(members.get(field.name), held[field.name], field.type) for field in kind)


def _moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time())

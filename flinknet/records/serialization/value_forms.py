"""Wire forms of values that msgpack has no type for.

Theory of operation. The packers pass on every value that is not exactly of a msgpack type. A value
of a known type (``extension_types.py``) or a registered class (``record_types.py``) becomes an
extension. A scalar of numpy or pandas becomes the equivalent value of Python. Every other value is
refused, including values of a subclass of a known type. Such a value would lose its type, but only
on channels that cross the network.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from flinknet.records.serialization.extension_types import (
    ARROW_BATCH,
    EXTENSIONS_NESTED_MAX,
    WRITERS,
    Pack,
    WriteExtension,
)
from flinknet.records.serialization.record_types import RecordTypes, kind_of_class

__all__ = ["Extension", "ValueForms", "arrow_pieces", "is_arrow_batch"]

Extension = tuple[int, bytes]
"""The code and the content of an extension."""

_KNOWN_KINDS = (
    bool, int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset, datetime, date,
    time, timedelta, Decimal, UUID,
)  # fmt: skip
_TOO_DEEP = (
    f"objects, sets and other extensions are nested more than {EXTENSIONS_NESTED_MAX} levels deep"
)
_PLAIN_KINDS = (bool, int, float, str, bytes, datetime, date, timedelta)


class ValueForms:
    """The forms of values for one packer; ``pack`` packs the values in an extension.

    ``failure`` is the last error of a form, for a packer that drops errors.
    """

    def __init__(self, types: RecordTypes, pack: Pack) -> None:
        self.failure: BaseException | None = None
        self._writers: dict[type, WriteExtension] = {**WRITERS, **types.writers}
        self._pack = pack
        self._level = 0

    def made_with(self, extension: Callable[[int, bytes], Any]) -> Callable[[Any], Any]:
        """Return a function that returns the form of a value.

        The form is a value that msgpack has a type for, or the result of ``extension`` for its code
        and content. The function raises an error for a value without a form.
        """
        writers, pack = self._writers, self._pack

        def form(value: Any) -> Any:
            try:
                write = writers.get(type(value))
                if write is None:
                    if is_arrow_batch(value):
                        return extension(ARROW_BATCH, b"".join(arrow_pieces(value)))
                    value = _native_value(value)
                    write = writers.get(type(value))
                    if write is None:
                        return value
                self._level += 1
                try:
                    if self._level > EXTENSIONS_NESTED_MAX:
                        raise ValueError(_TOO_DEEP)
                    return extension(*write(value, pack))
                finally:
                    self._level -= 1
            except BaseException as failure:
                self.failure = failure
                raise

        return form


def is_arrow_batch(value: Any) -> bool:
    """Return whether a value is an Arrow record batch."""
    kind = type(value)
    # By name, because pyarrow may not be installed, and importing it takes long.
    return kind.__name__ == "RecordBatch" and kind.__module__.startswith("pyarrow")


def arrow_pieces(batch: Any) -> tuple[bytes, memoryview]:
    """Return the content of an Arrow record batch, in two pieces."""
    from flinknet.records.columns.record_batch import batch_pieces

    return batch_pieces(batch)


def _native_value(value: Any) -> Any:
    """Return the Python value of a scalar of numpy or pandas.

    Raises TypeError for any other value, and ValueError for a time with nanoseconds.
    """
    # A value of a library exists only if the library is imported, so it need not be imported here.
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.Timestamp | pandas.Timedelta):
        return _without_nanoseconds(value)
    if numpy is not None and isinstance(value, numpy.generic):
        plain = value.item()
        if isinstance(value, numpy.datetime64 | numpy.timedelta64) and type(plain) is int:
            # ``item`` returns a number for nanoseconds, which datetime does not have.
            plain = _in_microseconds(value)
        if type(plain) in _PLAIN_KINDS:
            return plain
    raise TypeError(_refusal(value))


def _without_nanoseconds(value: Any) -> Any:
    if type(value).__name__ not in ("Timestamp", "Timedelta"):  # a subclass of the user's
        raise TypeError(_refusal(value))
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise ValueError(
            f"{value!r} has nanoseconds, but Python's datetime and timedelta do not: round it, "
            f'as with .floor("us")'
        )
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value.to_pytimedelta()


def _in_microseconds(value: Any) -> Any:
    kind = "M8[us]" if value.dtype.kind == "M" else "m8[us]"
    rounded = value.astype(kind)
    if rounded != value:
        raise ValueError(f"{value!r} is more precise than microseconds: round it to {kind}")
    return rounded.item()


def _refusal(value: Any) -> str:
    """Return the reason why a value has no form, with advice."""
    kind = type(value)
    name = kind.__name__
    if kind is int:
        return "an int has at most 64 bits, -2**63 to 2**64 - 1: convert it to text or a Decimal"
    if name == "NaTType" or (name in ("datetime64", "timedelta64") and str(value) == "NaT"):
        return "NaT is not a time: use None"
    found = kind_of_class(kind)
    if found is not None:
        return (
            f"{name} is {found} that is not registered: register it with "
            f"env.register_type({name}), or with open_writer(types=[{name}]) and "
            f"open_reader(types=[{name}])"
        )
    for known in _KNOWN_KINDS:
        if isinstance(value, known):
            return (
                f"{name} is derived from {known.__name__}, and would arrive as {known.__name__}: "
                "convert it"
            )
    return (
        f"{name} has no form on the wire: convert it, or put its values into a dataclass and "
        "register that"
    )

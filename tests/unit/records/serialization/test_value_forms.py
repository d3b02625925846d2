"""Values of numpy and pandas, which arrive as Python's, and msgspec's Structs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flinknet.errors import SerializationError
from flinknet.records.serialization.extension_types import ARROW_BATCH, EXTENSIONS_NESTED_MAX
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.records.serialization.value_forms import ValueForms, arrow_pieces
from tests.unit.records.serialization.record_values import name_of, same


class Order(msgspec.Struct):
    number: int
    items: tuple[Any, ...] = ()


class FrozenOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    number: int
    made = 0

    def __post_init__(self) -> None:
        FrozenOrder.made += 1


class Pause(pd.Timedelta):
    """A class of the user's."""


KNOWN = RecordTypes([Order, FrozenOrder])
pack = RecordPacker(KNOWN).pack
unpack = RecordUnpacker(record_bytes_max=1 << 16, record_elements_max=1 << 16, types=KNOWN).record


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (np.int64(-5), -5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.int8(5), 5),
        (np.bool_(True), True),
        (np.float64(1.5), 1.5),
        (np.float32(1.5), 1.5),
        (np.float16(1.5), 1.5),
        (np.str_("a"), "a"),
        (np.bytes_(b"a"), b"a"),
        (np.datetime64("2020-01-01"), date(2020, 1, 1)),
        (np.datetime64("2020-01-01T10"), datetime(2020, 1, 1, 10)),
        (np.datetime64("2020-01-01T10:00:00.000005000", "ns"), datetime(2020, 1, 1, 10, 0, 0, 5)),
        (np.timedelta64(5, "s"), timedelta(seconds=5)),
        (np.timedelta64(5_000, "ns"), timedelta(microseconds=5)),
        (pd.Timestamp("2020-01-01 10:00"), datetime(2020, 1, 1, 10)),
        (pd.Timestamp("2020-01-01", tz="UTC"), datetime(2020, 1, 1, tzinfo=UTC)),
        (
            pd.Timestamp(datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))),
            datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        ),
        (pd.Timedelta(5, "s"), timedelta(seconds=5)),
    ],
    ids=name_of,
)
def test_values_of_numpy_and_pandas_arrive_as_pythons(value: Any, arrives: Any) -> None:
    for record, expected in (
        (value, arrives),
        ((1, value), (1, arrives)),
        ({"a": [value]}, {"a": (arrives,)}),
        ({value: 1}, {arrives: 1}),
        ({value}, {arrives}),
        (Order(1, (value,)), Order(1, (arrives,))),
    ):
        assert same(unpack(pack(record)), expected)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (pd.NaT, "NaT is not a time: use None"),
        (np.datetime64("NaT", "s"), "NaT is not a time: use None"),
        (np.timedelta64("NaT", "s"), "NaT is not a time: use None"),
        (pd.Timestamp(1), "has nanoseconds"),
        (pd.Timedelta(1, "ns"), "has nanoseconds"),
        (Pause(5, "s"), "Pause is derived from timedelta"),
        (np.datetime64(1, "ns"), "is more precise than microseconds"),
        (np.timedelta64(1, "ns"), "is more precise than microseconds"),
        (np.timedelta64(1, "Y"), "Cannot get a common metadata divisor"),
        (np.complex64(1), "complex64 has no form"),
        (np.longdouble(1), "longdouble has no form"),
        (np.array([1]), "ndarray has no form"),
        (pd.NA, "NAType has no form"),
        (pd.Series([1]), "Series has no form"),
        (pd.DataFrame(), "DataFrame has no form"),
    ],
    ids=name_of,
)
def test_values_without_an_equivalent_in_python_are_refused(value: Any, reason: str) -> None:
    for record in (value, [value], {"a": {1: value}}):
        with pytest.raises(SerializationError, match=reason):
            pack(record)


@pytest.mark.parametrize(
    "value", [Order(1), Order(2, (Order(3), date.max)), FrozenOrder(number=5)], ids=name_of
)
def test_a_struct_arrives_as_what_was_sent(value: Any) -> None:
    for record in (value, (1, value), {1: {"a": value}}):
        assert same(unpack(pack(record)), record)


def test_a_struct_is_made_by_its_class() -> None:
    """msgspec's copying and pickling do the same."""
    sent = FrozenOrder(number=1)
    made = FrozenOrder.made
    assert unpack(pack(sent)) == sent
    assert FrozenOrder.made == made + 1


def test_a_struct_that_is_not_registered_is_refused() -> None:
    with pytest.raises(
        SerializationError, match=r"Order is a Struct .* env\.register_type\(Order\)"
    ):
        RecordPacker().pack(Order(1))


# -- forms by themselves ---------------------------------------------------------------------------


class Amount(Decimal):
    """A number that would arrive as another type."""


@pytest.fixture
def forms() -> ValueForms:
    return ValueForms(RecordTypes(), msgpack.packb)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (2**64, "an int has at most 64 bits"),
        (Amount(1), "Amount is derived from Decimal, and would arrive as Decimal"),
        (object(), "object has no form on the wire"),
    ],
    ids=["int", "Decimal", "object"],
)
def test_a_value_without_a_form_is_refused_and_the_reason_kept(
    forms: ValueForms, value: Any, reason: str
) -> None:
    with pytest.raises(TypeError, match=reason) as refused:
        forms.made_with(msgpack.ExtType)(value)
    assert forms.failure is refused.value


def test_an_arrow_batch_is_its_content_under_its_own_code(forms: ValueForms) -> None:
    batch = pa.record_batch({"a": [1, 2]})
    made = forms.made_with(msgpack.ExtType)(batch)
    assert made == msgpack.ExtType(ARROW_BATCH, b"".join(arrow_pieces(batch)))


def test_sets_in_one_another_are_limited() -> None:
    """The depth counts over all of them, and starts again with the next value."""

    def pack(value: Any) -> bytes:
        data: bytes = msgpack.packb(value, default=form)
        return data

    form = ValueForms(RecordTypes(), pack).made_with(msgpack.ExtType)
    value: Any = frozenset()
    for _ in range(EXTENSIONS_NESTED_MAX - 1):
        value = frozenset({value})
    assert form(value).code == 8
    with pytest.raises(ValueError, match=f"nested more than {EXTENSIONS_NESTED_MAX} levels deep"):
        form(frozenset({value}))
    assert form(value).code == 8

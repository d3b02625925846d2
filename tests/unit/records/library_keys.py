"""Keys of numpy's, pandas' and msgspec's types that are equal to Python's."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pandas as pd

NOON = datetime(2026, 11, 22, 12, 0, 0, 7)


class Frozen(msgspec.Struct, frozen=True):
    name: str
    number: float


class Changing(msgspec.Struct):
    name: str


EQUAL: list[tuple[Any, ...]] = [
    (7, np.int8(7), np.uint64(7), np.float16(7), np.float32(7), np.float64(7), np.complex64(7)),
    (1, np.True_),
    (0.5, np.float16(0.5), np.float64(0.5)),
    ("a", np.str_("a")),
    (b"a", np.bytes_(b"a")),
    (NOON, np.datetime64(NOON), pd.Timestamp(NOON)),
    (np.datetime64(NOON, "ns"), np.datetime64(NOON, "us"), pd.Timestamp(NOON)),
    (NOON.replace(tzinfo=UTC), pd.Timestamp(NOON, tz="UTC").tz_convert("Europe/Berlin")),
    (timedelta(1, 2, 3), np.timedelta64(timedelta(1, 2, 3)), pd.Timedelta(timedelta(1, 2, 3))),
    (date(2026, 1, 1), np.datetime64("2026-01-01")),
    (Frozen("a", 1), Frozen("a", 1.0)),
]

GOLDEN: list[tuple[Any, int]] = [
    (np.datetime64("2026-11-22T01:02:03.000004"), 3237763845),
    (Frozen("JFK", 1), 1779348009),
]

NO_TIMES: list[Any] = [pd.NaT, np.datetime64("NaT", "us"), np.timedelta64("NaT", "us")]

REFUSED: list[tuple[Any, str]] = [
    (np.longdouble(1), "Python has no equal value for such a numpy scalar"),
    (np.void(b"a"), "such a numpy scalar has no stable hash"),
    (np.array([1]), "such a type has no stable hash"),
    (Changing("a"), "a Struct is a key only if it is frozen"),
]

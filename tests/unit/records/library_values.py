"""Values of numpy's, pandas', Arrow's and msgspec's types: which can be changed, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa


class FrozenStruct(msgspec.Struct, frozen=True):
    value: Any


class OpenStruct(msgspec.Struct):
    value: Any


UNCHANGING: list[Any] = [
    *(np.float64(1), np.True_, np.datetime64("2026-01-01"), np.str_("a")),
    *(pd.Timestamp(0), pd.Timedelta(1), pd.NaT),
    *(pa.record_batch({"a": [1]}), pa.table({"a": [1]}), FrozenStruct((1, "a"))),
]

CHANGES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: np.array([1, 2]), lambda kept: kept.fill(3)),
    (lambda: np.zeros(1, "i4, i4")[0], lambda kept: kept.__setitem__(0, 3)),
    (lambda: pd.DataFrame({"a": [1]}), lambda kept: kept.__setitem__("a", [3])),
    (lambda: FrozenStruct([1]), lambda kept: kept.value.append(3)),
    (lambda: OpenStruct(1), lambda kept: setattr(kept, "value", 3)),
]
"""How to make a value, and how to change it."""

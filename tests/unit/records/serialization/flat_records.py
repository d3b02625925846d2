"""Small flat records, as most records are, and some records of other kinds."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["FLAT", "NUMBERS", "OTHERS"]

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    *(st.integers(max(-(2**63), -(2**bits) - 2), 2**bits + 2) for bits in (3, 8, 16, 30, 32, 60)),
    st.floats(allow_nan=False),
)
SCALARS = NUMBERS | st.sampled_from([None, True, False, "", "a", "ä"]) | st.text(max_size=40)
FLAT = st.lists(SCALARS | st.lists(SCALARS, max_size=3).map(tuple), max_size=15).map(tuple)
OTHERS = st.sampled_from([b"bytes", {"a": 1}, (1, {"a": 1}), (1, (2, (3, (4, (5, (6,))))))])

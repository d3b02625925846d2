"""Scalar values, for tests that pack and unpack any record."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


def scalars(text_max: int, bytes_max: int) -> st.SearchStrategy[Any]:
    """Return a strategy of the scalars that arrive unchanged."""
    return (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.text(max_size=text_max)
        | st.binary(max_size=bytes_max)
    )

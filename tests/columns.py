"""A mark that skips tests of columns where numpy or pyarrow is missing."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

__all__ = ["needs_columns"]

needs_columns = pytest.mark.skipif(
    find_spec("numpy") is None or find_spec("pyarrow") is None,
    reason="columns need numpy and pyarrow",
)

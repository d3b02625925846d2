from __future__ import annotations

import pytest

from flinknet.interpreter import apart


def test_apart_is_a_call() -> None:
    assert apart(divmod, 7, 2) == (3, 1)
    assert apart(sorted, [1, 2], reverse=True) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        apart(divmod, 1, 0)

from __future__ import annotations

import pytest

from flinknet.interpreter import residual_call


def test_apart_is_a_call() -> None:
    assert residual_call(divmod, 7, 2) == (3, 1)
    assert residual_call(sorted, [1, 2], reverse=True) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        residual_call(divmod, 1, 0)

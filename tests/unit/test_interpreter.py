from __future__ import annotations

import sys

import pytest

from flinknet.interpreter import INTERPRETER, residual_call


def test_apart_is_a_call() -> None:
    assert residual_call(divmod, 7, 2) == (3, 1)
    assert residual_call(sorted, [1, 2], reverse=True) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        residual_call(divmod, 1, 0)


def test_it_says_its_name_and_the_version_of_python() -> None:
    name, version = INTERPRETER.split()
    assert name.lower() == sys.implementation.name
    assert version.split(".")[:2] == [str(part) for part in sys.version_info[:2]]

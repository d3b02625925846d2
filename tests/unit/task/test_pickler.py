from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet.task.pickler import dumps

FACTOR = 5


def copied(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__module__ = "__main__"  # functions of other modules travel by name
    copy: Callable[..., Any] = pickle.loads(dumps(function))
    return copy


def make(offset: int) -> Callable[..., Any]:
    def function(first: int, *others: int, scale: int = 3, **more: int) -> list[int]:
        """Has all kinds of variables."""
        try:
            return [first * offset + FACTOR * scale + other + more["x"] for other in others]
        except KeyError:
            return []

    return function


def test_a_function_travels_with_its_variables() -> None:
    function = copied(make(2))
    assert function(1, 2, 3, x=7) == make(2)(1, 2, 3, x=7) == [26, 27]
    assert function(1, 2) == []
    assert function.__qualname__ == "make.<locals>.function"
    assert function.__doc__ == "Has all kinds of variables."


def test_lambdas_generators_and_coroutine_functions() -> None:
    assert copied(lambda value: value + FACTOR)(1) == 6
    assert list(copied(lambda n: (i for i in range(n)))(3)) == [0, 1, 2]

    async def later(value: int) -> int:
        return value

    with pytest.raises(StopIteration, match="4"):
        copied(later)(4).send(None)


def test_a_function_knows_the_file_it_stands_in() -> None:
    """cloudpickle 3.1.3 drops it, and the traceback of an error names no place any more."""
    assert copied(make(2)).__code__.co_filename == __file__
    inner = copied(lambda value: [value + one for one in range(3)])
    assert inner.__code__.co_filename == __file__


def test_a_class_travels_with_its_methods() -> None:
    class Base:
        def name(self) -> str:
            return "base"

    class Derived(Base):
        def name(self) -> str:
            return f"derived from {super().name()}"

    Base.__module__ = Derived.__module__ = "__main__"
    assert pickle.loads(dumps(Derived())).name() == "derived from base"


def test_what_cannot_be_pickled_says_so() -> None:
    with Path(os.devnull).open("rb") as file, pytest.raises(TypeError, match="BufferedReader"):
        dumps(lambda: file)

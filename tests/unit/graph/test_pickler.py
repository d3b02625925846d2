from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet.graph.pickler import dumps

FACTOR = 5


def copied(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__module__ = "__main__"  # functions of other modules are sent by name
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
    """cloudpickle 3.1.3 drops it, and the traceback of an error then names no place."""
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


def test_an_unpicklable_object_is_named() -> None:
    with Path(os.devnull).open("rb") as file, pytest.raises(TypeError, match="BufferedReader"):
        dumps(lambda: file)


DECORATED = """
import functools, pickle, sys, typing
from flinknet.graph.pickler import dumps, dumps_to_run

@functools.lru_cache(maxsize=7, typed=True)
def limited(n): return n + 1

@functools.cache
def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

class Bag:
    @functools.cached_property
    def size(self): return 5
    @functools.lru_cache
    def twice(self, n): return 2 * n

Name = typing.NewType("Name", str)

def named(n) -> Name: return Name(str(n))

nested = functools.lru_cache(lambda n: -n)
wrapped = functools.wraps(limited)(lambda n: limited(n))
partial = functools.partial(limited, 3)

sent = {}
for expression in sys.argv[2:]:
    try:
        sent[expression] = globals()[sys.argv[1]](eval(expression))
    except pickle.PicklingError as error:
        sent[expression] = str(error)
sys.stdout.buffer.write(pickle.dumps(sent))
"""


@functools.cache
def sent(by: str = "dumps") -> dict[str, Any]:
    """Pickle values of a program's own file, in a process that has that file as ``__main__``.

    Return each pickle, or the reason of its refusal, by the expression of the value.
    """
    expressions = [expression for expression, *_ in TRAVEL]
    command = [sys.executable, "-c", DECORATED, by, *expressions, "named"]
    found: dict[str, Any] = pickle.loads(subprocess.check_output(command))
    return found


TRAVEL = [
    ("limited", 3, 4),
    ("lambda n: limited(n)", 3, 4),
    ("fibonacci", 60, 1548008755920),
    ("lambda n: Bag().size + n", 1, 6),
    ("Bag().twice", 4, 8),
    ("nested", 4, -4),
    ("wrapped", 4, 5),
    ("lambda n: partial() + n", 4, 8),
]
"""Expressions, with an argument and the result for it."""


@pytest.mark.parametrize(("expression", "argument", "expected"), TRAVEL)
@pytest.mark.parametrize("by", ["dumps", "dumps_to_run"])
def test_decorated_functions_of_a_program_travel(
    expression: str, argument: int, expected: int, by: str
) -> None:
    """They are sent by value, with the settings of their caches.

    A recursive function takes linear time.
    """
    function = pickle.loads(sent(by)[expression])
    assert function(argument) == expected
    assert pickle.loads(dumps(function))(argument) == expected, "a worker copies it"


def test_a_cache_keeps_its_settings() -> None:
    limited = pickle.loads(sent()["limited"])
    assert limited.cache_parameters() == {"maxsize": 7, "typed": True}
    assert limited.__name__ == "limited"


def test_an_object_found_only_by_its_name_is_refused() -> None:
    """A worker would raise an AttributeError of its own ``__main__``."""
    assert "Name is a NewType of the program's own file" in sent()["named"]


@functools.lru_cache
def importable(number: int) -> int:
    return number


def test_a_cached_function_of_a_module_travels_by_name() -> None:
    """Its processes have one cache each, for any number of functions that refer to it."""
    assert pickle.loads(dumps(importable)) is importable

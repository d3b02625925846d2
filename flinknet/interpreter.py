"""The interpreter that runs this: CPython, which is fast where it calls C, or PyPy, which compiles
Python while it runs.

Every place where the two are told apart asks here. CPython packs and unpacks with C libraries;
calls from PyPy into C are slow, or the library does not exist there, and the same in Python is
compiled to less than C takes in CPython.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ["COMPILES_PYTHON", "INTERPRETER", "residual_call"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return function(*arguments, **named)


try:
    from pypyjit import residual_call as _residual_call  # type: ignore[import-not-found]
except ImportError:  # CPython, or PyPy without its compiler
    _residual_call = _call

COMPILES_PYTHON: Final[bool] = sys.implementation.name == "pypy"
"""Whether Python is compiled while it runs."""
INTERPRETER: Final = f"{platform.python_implementation()} {platform.python_version()}"
"""For people: its name, and the version of Python."""


def residual_call(
    function: Callable[Parameters, Result],
    *arguments: Parameters.args,
    **named: Parameters.kwargs,
) -> Result:
    """Call a function that a loop seldom needs, so that it is not compiled with the loop.

    The compiler follows calls as far as they go. What happens for one record in thousands it would
    follow through the whole runtime, and then give up: on the loop too, or on the calls that every
    record needs. Where Python is not compiled this is the call.
    """
    result: Result = _residual_call(function, *arguments, **named)
    return result

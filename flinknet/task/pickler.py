"""Pickling functions by value, so that a job's lambdas and those of its own file reach the workers.

cloudpickle (3.1) does that, but for two things in PyPy (7.3). A function's code takes its qualified
name there, as in CPython 3.11, and has no table of exceptions, by which cloudpickle tells that it
does. And PyPy's ``dis``, which cloudpickle asks for the global names in a function, fails at some
that use variables of the function around them: all names that the code holds are taken instead, so
that a global variable may travel along which has the name of an attribute.

Pickled functions are for the interpreter that made them: all processes of a cluster have the same.
"""

from __future__ import annotations

from collections import ChainMap
from io import BytesIO
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

from flinknet.interpreter import COMPILES_PYTHON

__all__ = ["dumps"]


def dumps(value: Any) -> bytes:
    """Return the pickle of a value and of the functions in it; raises whatever says that something
    cannot be pickled. ``pickle.loads`` reads it."""
    with BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


_Pickler: type[cloudpickle.Pickler] = cloudpickle.Pickler

if COMPILES_PYTHON:

    class _PyPyPickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Knows what the code of PyPy's functions consists of."""

        dispatch_table: ClassVar = ChainMap(
            {CodeType: lambda code: (CodeType, _parts(code))}, cloudpickle.Pickler.dispatch_table
        )

    _Pickler = _PyPyPickler
    cloudpickle.cloudpickle._walk_global_ops = lambda code: code.co_names


def _parts(code: CodeType) -> tuple[Any, ...]:
    return (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_nlocals,
        code.co_stacksize,
        code.co_flags,
        code.co_code,
        code.co_consts,
        code.co_names,
        code.co_varnames,
        code.co_filename,
        code.co_name,
        code.co_qualname,
        code.co_firstlineno,
        code.co_linetable,
        code.co_freevars,
        code.co_cellvars,
    )

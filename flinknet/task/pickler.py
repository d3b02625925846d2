"""Pickling functions by value, so that a job's lambdas and those of its own file reach the workers.

cloudpickle does that, but for three things. From 3.1.3 on it drops the file that a function stands
in, and an error would not be shown with its place in the job. In PyPy (7.3) a function's code takes
its qualified name, as in CPython 3.11, and has no table of exceptions, by which cloudpickle tells
that it does. And PyPy's ``dis``, which cloudpickle asks for the global names in a function, fails
at some that use variables of the function around them: all names that the code holds are taken
instead, so that a global variable may travel along which has the name of an attribute.

Pickled functions are for the interpreter that made them: all processes of a cluster have the same.
"""

from __future__ import annotations

from collections import ChainMap
from io import BytesIO
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

from flinknet.interpreter import COMPILES_PYTHON
from flinknet.task.attributes import reduced

__all__ = ["dumps", "dumps_to_run"]


def dumps(value: Any) -> bytes:
    """Return the pickle of a value and of the functions in it; raises whatever says that something
    cannot be pickled. ``pickle.loads`` reads it."""
    with BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


def dumps_to_run(value: Any) -> bytes:
    """The same, for functions that are called for every record: their objects find their attributes
    fast where they arrive (``attributes.py``)."""
    with BytesIO() as file:
        _PicklerToRun(file).dump(value)
        return file.getvalue()


def _reduce(code: CodeType) -> tuple[type[CodeType], tuple[Any, ...]]:
    return CodeType, (
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
        *((code.co_exceptiontable,) if hasattr(code, "co_exceptiontable") else ()),
        code.co_freevars,
        code.co_cellvars,
    )


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Knows what a function's code consists of."""

    dispatch_table: ClassVar = ChainMap({CodeType: _reduce}, cloudpickle.Pickler.dispatch_table)


class _PicklerToRun(_Pickler):
    """Knows how the attributes of objects are best restored."""

    if not COMPILES_PYTHON:

        def reducer_override(self, value: Any) -> Any:
            """See pickle, which asks this first: what the table knows is left to the table, such as
            the marks in a dataclass's fields, which are compared by identity."""
            reduction = super().reducer_override(value)
            if reduction is not NotImplemented or type(value) in self.dispatch_table:
                return reduction
            return reduced(value) or reduction


if COMPILES_PYTHON:
    cloudpickle.cloudpickle._walk_global_ops = lambda code: code.co_names

"""Pickling functions by value, so that a job's lambdas and those of its own file reach the workers.

cloudpickle does that, but from 3.1.3 on it drops the file that a function stands in, and an error
would not be shown with its place in the job.

What a program wraps by ``functools.lru_cache``, ``cache`` or ``cached_property`` travels by value,
too. Any other object of the program's own file that can only be found there by its name is refused:
a worker's ``__main__`` is another module, and would miss it.

Pickled functions are for the interpreter that made them: all processes of a cluster have the same.
"""

from __future__ import annotations

import functools
import sys
from collections import ChainMap
from collections.abc import Callable
from io import BytesIO
from pickle import PicklingError
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

from flinknet.functions.attributes import reduced

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
        code.co_exceptiontable,
        code.co_freevars,
        code.co_cellvars,
    )


_Cached = type(functools.lru_cache(lambda: None))


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    cached: Callable[..., Any] = functools.lru_cache(**parameters)(function)
    return cached


def _reduce_property(value: functools.cached_property[Any]) -> tuple[Any, ...]:
    return _cached_property, (value.func, value.attrname)


def _cached_property(
    function: Callable[[Any], Any], name: str | None
) -> functools.cached_property[Any]:
    """Return the property under the name that its class gave it: a class that travels by value
    gives its attributes no names."""
    made = functools.cached_property(function)
    if name is not None:
        made.__set_name__(object, name)
    return made


def _reduced_by_name(value: Any) -> Any:
    """Return how to pickle an object that pickle would look up by its name where that cannot be
    found by a worker; else NotImplemented."""
    name = getattr(value, "__qualname__", None)
    if not isinstance(name, str) or _is_importable(value, name):
        return NotImplemented
    if isinstance(value, _Cached):
        return _cached, (value.__wrapped__, value.cache_parameters())
    if isinstance(value.__reduce_ex__(4), str):
        raise PicklingError(
            f"{name} is a {type(value).__name__} of the program's own file, which workers do not "
            "import: move it to a module of its own"
        )
    return NotImplemented


def _is_importable(value: Any, name: str) -> bool:
    module = getattr(value, "__module__", None)
    if module == "__main__":
        return False
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Knows what a function's code consists of, and what its program has wrapped it in."""

    dispatch_table: ClassVar = ChainMap(
        {CodeType: _reduce, functools.cached_property: _reduce_property},
        cloudpickle.Pickler.dispatch_table,
    )

    def reducer_override(self, value: Any) -> Any:
        """See pickle, which asks this first."""
        reduction = super().reducer_override(value)
        return _reduced_by_name(value) if reduction is NotImplemented else reduction


class _PicklerToRun(_Pickler):
    """Knows how the attributes of objects are best restored."""

    def reducer_override(self, value: Any) -> Any:
        """See pickle, which asks this first: what the table knows is left to the table, such as
        the marks in a dataclass's fields, which are compared by identity."""
        reduction = super().reducer_override(value)
        if reduction is not NotImplemented or type(value) in self.dispatch_table:
            return reduction
        return reduced(value) or reduction

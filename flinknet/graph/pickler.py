"""Pickling of functions by value, so that lambdas and functions of a job's file reach the workers.

cloudpickle does this, but since 3.1.3 it drops the file name of a function, so an error would not
be shown with its place in the job.

Functions wrapped by ``functools.lru_cache``, ``cache`` or ``cached_property`` are pickled by value,
too. Any other object of the program's own file that is only found by name is refused, because a
worker's ``__main__`` is another module and lacks it.

Modules that workers cannot import are also pickled by value (``send_by_value``): their functions
and classes, and a module that a function refers to as a whole, with all its contents that can be
pickled. Other contents raise an error when they are used (``NotSent``).

Pickled functions depend on the interpreter, so all processes of a cluster must use the same.
"""

from __future__ import annotations

import functools
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable
from io import BytesIO
from pickle import PicklingError
from types import CodeType, ModuleType
from typing import Any, ClassVar

import cloudpickle

from flinknet.functions.attributes import reduced

__all__ = ["NotSent", "dumps", "dumps_to_run", "send_by_value"]


_by_value: set[str] = set()
"""Names of the modules that are pickled by value."""

_OF_IMPORT = {"__builtins__", "__cached__", "__loader__", "__spec__"}
"""Contents of a module that only its import needs."""


def send_by_value(modules: Iterable[ModuleType]) -> None:
    """Pickle the functions and classes of these modules by value from now on."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
        _by_value.add(module.__name__)


def dumps(value: Any) -> bytes:
    """Return the pickle of a value with its functions, for ``pickle.loads``.

    Raises the error of an object that cannot be pickled.
    """
    with BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


def dumps_to_run(value: Any) -> bytes:
    """Return such a pickle for functions that are called for every record.

    Their objects get fast attribute access when they are unpickled (``attributes.py``).
    """
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
    """Return a property with the name that its class gave it.

    A class that is pickled by value does not call ``__set_name__``.
    """
    made = functools.cached_property(function)
    if name is not None:
        made.__set_name__(object, name)
    return made


def _reduced_by_name(value: Any) -> Any:
    """Return how to pickle an object that pickle would look up by name, if workers cannot find it.

    Otherwise return NotImplemented.
    """
    name = getattr(value, "__qualname__", None)
    if not isinstance(name, str) or _is_importable(value, name):
        return NotImplemented
    if isinstance(value, _Cached):
        return _cached, (value.__wrapped__, value.cache_parameters())
    if isinstance(value.__reduce_ex__(4), str):
        raise PicklingError(
            f"{name} is a {type(value).__name__} of the program's own files, which workers do not "
            "import: move it to a separate module that is installed on the workers"
        )
    return NotImplemented


def _is_importable(value: Any, name: str) -> bool:
    module = getattr(value, "__module__", None)
    if module == "__main__" or module in _by_value:
        return False
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


class NotSent:
    """Placeholder for an object in a module that cannot be pickled."""

    def __init__(self, name: str, reason: str) -> None:
        vars(self).update(_name=name, _reason=reason)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python itself asks for such names, for example to copy.
            raise AttributeError(name)
        raise self._error()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise self._error()

    def __enter__(self) -> Any:
        raise self._error()

    def __exit__(self, *error: object) -> None:
        """Do nothing: the placeholder cannot be entered."""

    def __getstate__(self) -> dict[str, str]:
        return dict(vars(self))

    def __setstate__(self, state: dict[str, str]) -> None:
        vars(self).update(state)

    def _error(self) -> PicklingError:
        name, reason = vars(self)["_name"], vars(self)["_reason"]
        return PicklingError(
            f"{name} was not sent to the worker, because it cannot be pickled ({reason}): create "
            "it where it is used, for example in open()"
        )


def _is_by_value(module: ModuleType) -> bool:
    """Return whether no worker could import a module.

    Either this process has registered it, or this process has received it by value itself.
    """
    return module.__name__ in _by_value or sys.modules.get(module.__name__) is not module


def _fill(module: ModuleType, state: dict[str, Any]) -> None:
    vars(module).update(state)


def _reduce_module(module: ModuleType) -> tuple[Any, ...]:
    state = {name: one for name, one in vars(module).items() if name not in _OF_IMPORT}
    for name, one in state.items():
        try:
            _TrialPickler(BytesIO()).dump(one)
        except Exception as error:  # Pickling runs code of the object, which may raise anything.
            state[name] = NotSent(f"{module.__name__}.{name}", str(error))
    # The last item fills the module after it is known, because its contents may refer to it.
    return ModuleType, (module.__name__,), state, None, None, _fill


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler for code objects and for functions in wrappers of the standard library."""

    dispatch_table: ClassVar = ChainMap(
        {CodeType: _reduce, functools.cached_property: _reduce_property},
        cloudpickle.Pickler.dispatch_table,
    )

    def reducer_override(self, value: Any) -> Any:
        """Return a reduction; pickle calls this first for each object."""
        if isinstance(value, ModuleType) and _is_by_value(value):
            return self._reduce_module(value)
        reduction = super().reducer_override(value)
        return _reduced_by_name(value) if reduction is NotImplemented else reduction

    def _reduce_module(self, module: ModuleType) -> tuple[Any, ...]:
        return _reduce_module(module)


class _TrialPickler(_Pickler):
    """Pickler that tests whether an object can be pickled, regardless of modules in it."""

    def _reduce_module(self, module: ModuleType) -> tuple[Any, ...]:
        return ModuleType, (module.__name__,)


class _PicklerToRun(_Pickler):
    """Pickler that restores the attributes of objects for fast access."""

    def reducer_override(self, value: Any) -> Any:
        """Return a reduction; pickle calls this first for each object.

        Types in the dispatch table are left to the table. Among them are the markers in the fields
        of dataclasses, which are compared by identity.
        """
        reduction = super().reducer_override(value)
        if reduction is not NotImplemented or type(value) in self.dispatch_table:
            return reduction
        return reduced(value) or reduction

"""Corrects signatures in the reference of the API, as an extension of griffe."""

from __future__ import annotations

from typing import Any

from griffe import Expr, ExprName, ExprSubscript, Extension, Function

_RETURNED = {
    "contextlib.contextmanager": "AbstractContextManager",
    "contextlib.asynccontextmanager": "AbstractAsyncContextManager",
}
"""What a decorated generator function returns, by its decorator."""


class ContextManagers(Extension):
    """Shows that a function returns a context manager, and not the iterator of its source."""

    def on_function_instance(self, *, func: Function, **kwargs: Any) -> None:
        """Replace the type that a decorated function returns."""
        for decorator in func.decorators:
            name = _RETURNED.get(decorator.callable_path)
            if name is not None and isinstance(func.returns, ExprSubscript):
                value: str | Expr = func.returns.slice
                func.returns = ExprSubscript(ExprName(name), value)

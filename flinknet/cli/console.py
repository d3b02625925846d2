"""The consoles for tables: wrapped to a terminal's width, and unwrapped in a file or a pipe."""

from __future__ import annotations

import os

from rich.console import Console

__all__ = ["table_console"]

_UNLIMITED_COLUMNS = 10_000
"""Width for a file or a pipe, wider than any row, so that no row is wrapped."""


def table_console(*, stderr: bool = False) -> Console:
    """Return a console for standard output, or for standard error.

    COLUMNS in the environment sets the width of any output, as in other programs.
    """
    console = Console(stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNLIMITED_COLUMNS
    return console

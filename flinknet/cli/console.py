"""Where commands print tables: wrapped at a terminal's width, and whole into a file or a pipe."""

from __future__ import annotations

import os

from rich.console import Console

__all__ = ["table_console"]

_UNLIMITED_COLUMNS = 10_000
"""The width of a file or a pipe: wider than any row, so that no row is wrapped."""


def table_console(*, stderr: bool = False) -> Console:
    """Return a console for standard output, or standard error.

    COLUMNS in the environment sets the width of anything, as it does for other programs.
    """
    console = Console(stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNLIMITED_COLUMNS
    return console

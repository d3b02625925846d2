"""A table that never truncates numbers; on a narrow terminal it splits into several tables.

Text may wrap, but a number without its last digits would read as a different number. Columns of
numbers that do not fit beside each other go into a further table below. All tables repeat the
columns of names.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

__all__ = ["FittingTable"]

_NAMES_SHARE = 3
"""Beside numbers, the names get at least one part in this many of the width if they need it."""


class FittingTable:
    """A table with text columns ``names`` and number columns ``numbers``.

    Numbers are never wrapped or truncated.
    """

    def __init__(
        self, *, title: Text | None = None, names: Sequence[str], numbers: Sequence[str]
    ) -> None:
        self._title = title
        self._names = names
        self._numbers = numbers
        self._rows: list[tuple[tuple[str | Text, ...], bool]] = []

    def add_row(self, *cells: str | Text, line_below: bool = False) -> None:
        """Add a row, the names first; ``line_below`` ends a section."""
        self._rows.append((cells, line_below))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left = list(range(len(self._numbers)))
        title = self._title
        while left or title is self._title:
            chosen = self._fitting(left, console, options)
            yield self._table(chosen, title)
            left, title = left[len(chosen) :], None
            if not left:
                return

    def _fitting(
        self, candidates: Sequence[int], console: Console, options: ConsoleOptions
    ) -> Sequence[int]:
        """Return as many of the next columns of numbers as fit, and at least one."""
        width = options.max_width
        for count in range(len(candidates), 1, -1):
            numbers = _width(self._table(candidates[:count], None, names=False), console, options)
            names = _width(self._table((), None), console, options)
            if numbers + min(names, width // _NAMES_SHARE) <= width:
                return candidates[:count]
        return candidates[:1]

    def _table(self, chosen: Sequence[int], title: Text | None, *, names: bool = True) -> Table:
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        shown = self._names if names else ()
        for heading in shown:
            table.add_column(heading, overflow="fold")
        for index in chosen:
            table.add_column(self._numbers[index], justify="right", no_wrap=True)
        for cells, line_below in self._rows:
            first = cells[: len(shown)]
            rest = (cells[len(self._names) + index] for index in chosen)
            table.add_row(*first, *rest, end_section=line_below)
        return table


def _width(table: Table, console: Console, options: ConsoleOptions) -> int:
    wide = options.update(max_width=10_000)
    return Measurement.get(console, wide, table).maximum

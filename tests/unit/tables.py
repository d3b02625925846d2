"""Transition tables: their form in a module's docstring, and the way to one of their states."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)

_ROW = re.compile(r"^    ([A-Z_]+) +([A-Z_]+ -> [A-Z_]+(?:, [A-Z_]+ -> [A-Z_]+)*)$", re.MULTILINE)


def shown_in(docstring: str | None) -> dict[tuple[str, str], str]:
    """Read the rows ``STATE  EVENT -> STATE, ...`` of a docstring."""
    rows = {}
    for state, moves in _ROW.findall(docstring or ""):
        for move in moves.split(", "):
            event, _, following = move.partition(" -> ")
            assert (state, event) not in rows, f"{state} {event} is shown twice"
            rows[state, event] = following
    return rows


def named(transitions: Mapping[tuple[S, E], S]) -> dict[tuple[str, str], str]:
    """Return a table in the form of its docstring."""
    return {
        (state.name, event.name): following.name
        for (state, event), following in transitions.items()
    }


def way_to(state: S, first: S, transitions: Mapping[tuple[S, E], S]) -> list[E]:
    """Return the fewest events that lead from the first state to another one."""
    ways: dict[S, list[E]] = {first: []}
    waiting = deque([first])
    while state not in ways:
        here = waiting.popleft()
        for (start, event), following in transitions.items():
            if start is here and following not in ways:
                ways[following] = [*ways[here], event]
                waiting.append(following)
    return ways[state]

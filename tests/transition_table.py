"""Transition tables as docstrings draw them, so that tests walk what people read.

A table has a header, ``state`` and the steps, and a row per state, ``-`` for what is refused::

    state   open   close
    NEW     OPEN   CLOSED
    OPEN    -      CLOSED

A state without a row refuses every step: it is terminal.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

__all__ = ["transitions"]

State = TypeVar("State", bound=Enum)
Step = TypeVar("Step", bound=Enum)


def transitions(
    document: str | None, states: type[State], steps: type[Step]
) -> list[tuple[State, Step, State | None]]:
    """Every state with every step and what follows, None if refused, from the one table of the
    docstring whose header names these steps (by their values)."""
    lines = [line.split() for line in (document or "").splitlines()]
    (start,) = [
        number
        for number, cells in enumerate(lines)
        if cells[:1] == ["state"] and cells[1:] == [step.value for step in steps]
    ]
    rows: dict[State, list[str]] = {}
    for cells in lines[start + 1 :]:
        if not cells:
            break
        state, *following = cells
        assert states[state] not in rows, f"{state} has two rows"
        rows[states[state]] = following
    terminal = ["-"] * len(steps)
    return [
        (state, step, None if cell == "-" else states[cell])
        for state in states
        for step, cell in zip(steps, rows.get(state, terminal), strict=True)
    ]

"""Transition tables, which map a state and an event to the next state.

An object with a lifecycle keeps its state in one attribute and changes it by one look-up. A pair
that is not in the table is a programming error: it changes nothing and raises AssertionError.
Errors of peers and users must be detected before the look-up.
"""

from __future__ import annotations

from enum import Enum
from typing import NoReturn, TypeVar

__all__ = ["Transitions"]

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Transitions(dict[tuple[S, E], S]):
    """The legal transitions of a lifecycle."""

    def __missing__(self, pair: tuple[S, E]) -> NoReturn:
        state, event = pair
        raise AssertionError(
            f"{type(event).__name__}.{event.name} must not happen in {type(state).__name__}."
            f"{state.name}"
        )

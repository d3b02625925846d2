"""Transitions: the table of a lifecycle, from a state and what happens in it to the state after.

Whoever has a lifecycle keeps its state in one attribute and changes it by one look-up. A pair that
is not in the table is a mistake of the program: it changes nothing and raises AssertionError. What
a peer or a user can do wrong is to be judged before.
"""

from __future__ import annotations

from enum import Enum
from typing import NoReturn, TypeVar

__all__ = ["Transitions"]

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Transitions(dict[tuple[S, E], S]):
    """The legal rows of a table."""

    def __missing__(self, pair: tuple[S, E]) -> NoReturn:
        state, event = pair
        raise AssertionError(
            f"{type(event).__name__}.{event.name} must not happen in {type(state).__name__}."
            f"{state.name}"
        )

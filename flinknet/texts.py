"""Texts that leave a process for a peer, a client or a terminal.

Errors of users' functions, records and messages of peers are shown to people. Such a text can hold
lone surrogates, which no encoder accepts, escape sequences, which control a terminal, or megabytes;
and ``str`` of the object can raise. ``text_of`` returns a text for any object, and ``printable``
makes a text harmless. It is applied where a text leaves a process, and again where it reaches a
terminal; the second application changes nothing.
"""

from __future__ import annotations

import re
import traceback

__all__ = ["TEXT_CHARACTERS_MAX", "counted", "printable", "text_of", "traceback_of"]

TEXT_CHARACTERS_MAX = 16 * 1024
"""Limit for the text of one error: longer texts hold data, not explanations."""

_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and newline
    "\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"  # other newlines; changes of direction
    "\ud800-\udfff]"  # lone surrogates: a pair would be one character
)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as ``"1 worker"`` or ``"1,200 workers"``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """Return the text with harmful characters escaped as in Python source: ``\\x1b``.

    Newlines and tabs stay.
    """
    return _HARMFUL.sub(_escaped, text)


def text_of(value: object, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return ``str(value)``, printable and cut to a length; never raises an Exception."""
    try:
        text = str(value)
    except Exception as error:
        return f"<{type(value).__name__} without a text: its __str__ raised {type(error).__name__}>"
    if len(text) > characters_max:
        text = text[:characters_max] + " ..."
    return printable(text)


def traceback_of(error: BaseException) -> str:
    """Return the whole traceback, printable; never raises an Exception."""
    try:
        return printable("".join(traceback.format_exception(error)))
    except Exception as failure:
        return f"<no traceback of {type(error).__name__}: {type(failure).__name__}>"


def _escaped(harmful: re.Match[str]) -> str:
    return harmful.group().encode("unicode_escape").decode()

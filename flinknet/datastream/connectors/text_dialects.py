"""Constants and checks shared by readers and writers of text files."""

from __future__ import annotations

from flinknet.errors import ConfigurationError

__all__ = ["BYTE_ORDER_MARK", "FIELD_CHARACTERS_MAX", "require_delimiter"]

BYTE_ORDER_MARK = "\ufeff"

FIELD_CHARACTERS_MAX = 1 << 27
"""Maximum number of characters in a CSV field.

Python's default limit of 131,072 is less than one long text. Without a limit, an unclosed quote
would load the rest of a file into memory.
"""


def require_delimiter(delimiter: str) -> None:
    """Raise ConfigurationError if the delimiter cannot separate the values of a CSV row."""
    if len(delimiter) != 1 or delimiter in f'"\r\n{BYTE_ORDER_MARK}':
        raise ConfigurationError(
            f"the delimiter is {delimiter!r}: choose one character other than a quote or a line "
            "break"
        )

"""What readers and writers of text files must agree on."""

from __future__ import annotations

from flinknet.errors import ConfigurationError

__all__ = ["BYTE_ORDER_MARK", "FIELD_CHARACTERS_MAX", "require_delimiter"]

BYTE_ORDER_MARK = "\ufeff"

FIELD_CHARACTERS_MAX = 1 << 27
"""Characters of a CSV field. Python's own limit, 131,072, is less than one long text; without any,
a quote that is not closed would take the rest of a file into memory."""


def require_delimiter(delimiter: str) -> None:
    """ConfigurationError if it cannot stand between the values of a CSV row."""
    if len(delimiter) != 1 or delimiter in f'"\r\n{BYTE_ORDER_MARK}':
        raise ConfigurationError(
            f"the delimiter is {delimiter!r}: choose one character that is no quote and no line "
            "break"
        )

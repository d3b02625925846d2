"""Reader of extensions, which the unpackers pass on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinknet.records.serialization.extension_types import (
    ARROW_BATCH,
    EXTENSIONS_NESTED_MAX,
    OWN_EXTENSIONS,
    READERS,
    SETS,
)
from flinknet.records.serialization.record_types import RecordTypes

__all__ = ["ExtensionReader", "read_arrow"]


class ExtensionReader:
    """Reader of the values of extensions.

    Args:
        types: The registered classes.
        unpack: Unpacks the content of an extension, and calls ``read`` for nested extensions.
        set_items_max: Larger sets are refused.
    """

    def __init__(
        self, types: RecordTypes, unpack: Callable[[bytes], Any], set_items_max: int
    ) -> None:
        self._types = types
        self._unpack = unpack
        self._set_items_max = set_items_max
        self._level = 0

    def read(self, code: int, content: bytes) -> Any:
        """Return the value of an extension. Raises ValueError."""
        if code == ARROW_BATCH:
            return read_arrow(content)
        if code not in OWN_EXTENSIONS:
            raise ValueError(f"{code} is not an extension type of records")
        self._level += 1
        try:
            if self._level > EXTENSIONS_NESTED_MAX:
                raise ValueError(
                    f"it is nested in more than {EXTENSIONS_NESTED_MAX} other extensions"
                )
            value = self._unpack(content)
            # Before the set is built, which hashes the elements.
            if code in SETS and len(value) > self._set_items_max:
                raise ValueError(f"it has more than {self._set_items_max} elements")
            read = READERS.get(code)
            return self._types.read(code, value) if read is None else read(value)
        except Exception as error:  # also an error from the hash of a user's class
            raise ValueError(
                f"an extension of type {code} cannot be read: {str(error) or type(error).__name__}"
            ) from error
        finally:
            self._level -= 1


def read_arrow(content: bytes) -> Any:
    """Return the Arrow record batch of a content. Raises ValueError."""
    try:
        from flinknet.records.columns.record_batch import read_batch
    except ModuleNotFoundError as error:
        raise ValueError(
            f"it is an Arrow record batch, but {error.name} is not installed here: install "
            "flinknet[arrow]"
        ) from error
    return read_batch(content)

"""Unpacking of records with msgpack's library in C.

Arrays become tuples at every depth. If flinknet is compiled, ``c_unpacker.pyx`` replaces this.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgpack

from flinknet.records.serialization.elements import Serialised, UnpackRecords

__all__ = ["CUnpacker"]


class CUnpacker:
    """Unpacker of values.

    ``unpack`` returns the single value of a content. It raises ValueError, TypeError, OverflowError
    or UnpackException for an invalid content, and any error of the hash of a key. ``records``
    unpacks whole records in place; None if there is no such way.

    Args:
        bytes_max: Longer text, bytes and extensions are refused.
        elements_max: Longer arrays and maps are refused.
        read_extension: Returns the value of an extension, or raises ValueError.
        map_entries_max: Replaces ``elements_max`` for maps.
    """

    records: UnpackRecords | None = None

    def __init__(
        self,
        bytes_max: int,
        elements_max: int,
        read_extension: Callable[[int, bytes], Any],
        map_entries_max: int | None = None,
    ) -> None:
        self.unpack: Callable[[Serialised], Any] = partial(
            msgpack.unpackb,
            use_list=False,
            timestamp=3,
            strict_map_key=False,
            max_str_len=bytes_max,
            max_bin_len=bytes_max,
            max_array_len=elements_max,
            max_map_len=elements_max if map_entries_max is None else map_entries_max,
            max_ext_len=bytes_max,
            ext_hook=read_extension,
        )

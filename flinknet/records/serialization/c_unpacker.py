"""Unpacking records with msgpack's library in C.

It makes tuples of arrays however deep they stand. Compiled, a form of our own runs in its place
(``c_unpacker.pyx``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgpack

from flinknet.records.serialization.elements import Serialised, UnpackRecords

__all__ = ["CUnpacker"]


class CUnpacker:
    """Unpacks values.

    ``unpack`` returns the one value that a content is. It raises ValueError, TypeError,
    OverflowError or UnpackException for what is none, and whatever the hash of a key raises.
    ``records`` unpacks whole records where they lie, if there is such a way.

    Args:
        bytes_max: longer text, bytes and extensions are refused.
        elements_max: longer arrays and maps are refused.
        read_extension: returns the value of an extension type, or raises ValueError.
        map_entries_max: the same as ``elements_max``, for maps alone.
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

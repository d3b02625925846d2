"""Extensions as values: their types, their depth and their size."""

from __future__ import annotations

import sys
from typing import Any

import msgpack
import pytest

from flinknet.records.serialization.extension_reader import ExtensionReader
from flinknet.records.serialization.extension_types import (
    ARROW_BATCH,
    EXTENSIONS_NESTED_MAX,
    OBJECT,
)
from flinknet.records.serialization.record_types import RecordTypes
from tests.unit.records.serialization.record_values import Frozen

DECIMAL, SET, FROZENSET = 5, 7, 8


def reader_of(set_items_max: int = 100) -> ExtensionReader:
    """Return a reader that unpacks contents with a stock unpacker."""

    def unpack(content: bytes) -> Any:
        return msgpack.unpackb(content, use_list=False, ext_hook=reader.read)

    reader = ExtensionReader(RecordTypes([Frozen]), unpack, set_items_max)
    return reader


def test_pythons_own_types_and_registered_classes_are_read() -> None:
    reader = reader_of()
    assert reader.read(SET, msgpack.packb([1, 2])) == {1, 2}
    assert reader.read(OBJECT, msgpack.packb([0, 7])) == Frozen(7)


@pytest.mark.parametrize("code", [0, 11, 126, -1, -128])
def test_another_extension_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=f"{code} is not an extension type of records"):
        reader_of().read(code, b"\x90")


def test_a_content_that_cannot_be_read_says_which_and_why() -> None:
    with pytest.raises(ValueError, match="an extension of type 7 cannot be read: .*has no len"):
        reader_of().read(SET, msgpack.packb(1))
    with pytest.raises(ValueError, match="an extension of type 5 cannot be read: "):
        reader_of().read(DECIMAL, msgpack.packb("one"))


def test_the_elements_of_sets_are_limited() -> None:
    """They are hashed one by one, and a record's length does not show this work."""
    reader = reader_of(set_items_max=3)
    assert len(reader.read(SET, msgpack.packb([1, 2, 3]))) == 3
    for code in (SET, FROZENSET):
        with pytest.raises(ValueError, match="it has more than 3 elements"):
            reader.read(code, msgpack.packb([1, 2, 3, 4]))


def nested(levels: int) -> bytes:
    """Return the content of a set in a set, and so on, with this many levels."""
    content: bytes = msgpack.packb([])
    for _ in range(levels - 1):
        content = msgpack.packb([msgpack.ExtType(FROZENSET, content)])
    return content


def test_extensions_in_one_another_are_limited() -> None:
    reader = reader_of()
    assert reader.read(FROZENSET, nested(EXTENSIONS_NESTED_MAX))
    with pytest.raises(
        ValueError, match=f"it is nested in more than {EXTENSIONS_NESTED_MAX} other extensions"
    ):
        reader.read(FROZENSET, nested(EXTENSIONS_NESTED_MAX + 1))
    assert reader.read(FROZENSET, nested(1)) == frozenset(), "what was refused left nothing"


def test_an_arrow_batch_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"."):
        reader_of().read(ARROW_BATCH, b"no batch")


def test_an_arrow_batch_without_arrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "flinknet.records.columns.record_batch", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pyarrow is not installed here: .*flinknet\[arrow\]"):
        reader_of().read(ARROW_BATCH, b"a batch")

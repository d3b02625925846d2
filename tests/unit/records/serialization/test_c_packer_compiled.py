"""The compiled packer makes the same bytes as the plain one, even if a record changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.builder import BufferBuilder
from flinknet.buffer.segment import MemorySegment
from flinknet.compiled_modules import COMPILED
from flinknet.records.serialization import c_packer
from flinknet.records.serialization.extension_types import EXTENSIONS_NESTED_MAX, NESTING_MAX
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.record_types import RecordTypes
from tests.plain_module import plain_module
from tests.traced_memory import traced_memory
from tests.unit.arrangements import Recycler
from tests.unit.records.serialization.record_values import TYPES, Slotted
from tests.unit.records.serialization.scalars import scalars
from tests.unit.records.serialization.unpacking import PlainUnpacker

if not COMPILED:
    pytest.skip("nothing is compiled", allow_module_level=True)

CompiledPacker: Any = c_packer.CPacker
PlainPacker: Any = plain_module("flinknet.records.serialization.c_packer").CPacker
KNOWN = RecordTypes(TYPES)
packer = CompiledPacker(KNOWN)
pack = packer.pack
pack_in_plain_python = PlainPacker(KNOWN).pack

VALUES: st.SearchStrategy[Any] = (
    scalars(300, 300)
    | st.floats()  # NaN and infinities, too
    | st.binary(max_size=300).map(bytearray)
    | st.binary(max_size=300).map(lambda content: memoryview(content)[:])
    | st.dates()
    | st.frozensets(st.integers(0, 9), max_size=3)
)
RECORDS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.lists(inner, max_size=20).map(tuple)
        | st.dictionaries(
            st.text(max_size=40) | st.integers(-(2**63), 2**64 - 1), inner, max_size=20
        )
        | st.builds(Slotted, st.integers(0, 9), inner)
    ),
    max_leaves=30,
)


@given(record=RECORDS)
def test_any_record(record: Any) -> None:
    assert pack(record) == pack_in_plain_python(record)
    assert packer.encode(record, packer.form, packer.options) == pack(record)


@pytest.mark.parametrize(
    "base", [0, 31, 32, 127, 128, 255, 256, 32_768, 65_535, 2**31, 2**32, 2**63, 2**64 - 1]
)
def test_every_form_of_a_number(base: int) -> None:
    for number in (base - 1, base, base + 1, -base - 1, -base, 1 - base):
        if -(2**63) <= number < 2**64:
            assert pack((number,)) == pack_in_plain_python((number,))
        else:
            with pytest.raises(OverflowError, match="at most 64 bits"):
                pack((number,))


@pytest.mark.parametrize("length", [*range(34), 255, 256, 65_535, 65_536, 1 << 21])
def test_lengths(length: int) -> None:
    """This includes texts beyond which the packer must not read."""
    for record in ("a" * length, "ä" * length, b"a" * length, [None] * length, (1,) * length):
        assert pack(record) == pack_in_plain_python(record)
    numbers = dict.fromkeys(range(length))
    assert pack(numbers) == pack_in_plain_python(numbers)
    sliced = "0123456789abcdefghijklmnopqrstuvwxyz"[:length]
    assert pack(sliced) == pack_in_plain_python(sliced)


@pytest.mark.parametrize("text", ["\x7f", "\x80", "ÿ", "Ā", "\uffff", "\U00010000", "\U0010ffff"])
def test_texts_of_every_width(text: str) -> None:
    assert pack(text * 40) == pack_in_plain_python(text * 40)
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        pack(text + "\udc80")


@pytest.mark.parametrize("items", ["B", "b", "c", "i", "d", "?"])
def test_a_view_of_any_items_is_its_bytes(items: Any) -> None:
    view = memoryview(bytes(64)).cast(items)
    assert pack(view) == pack(bytes(64)) == pack(view.cast("B").cast(items, (1, len(view))))
    view.release()
    with pytest.raises(ValueError, match="released"):
        pack(view)


# -- a record that changes while it is packed ------------------------------------------------------


@dataclass
class Meddling:
    """Runs an action when it is packed."""

    @property
    def more(self) -> Any:
        return self.__dict__["action"]()


def meddling(action: Callable[[], Any]) -> tuple[Meddling, Any]:
    """Return such an object, and a packer that knows its class."""
    one = Meddling()
    one.__dict__["action"] = action
    Meddling.__dataclass_fields__ = {"more": Slotted.__dataclass_fields__["more"]}
    return one, CompiledPacker(RecordTypes([Meddling]))


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a list that grows": (lambda one: [one, 1, 2], lambda record: record.extend([3] * 99)),
    "a list that shrinks": (lambda one: [one, 1, 2], lambda record: record.pop()),
    "a list without itself": (lambda one: [1, one, 2], lambda record: record.clear()),
    "a dict that grows": (
        lambda one: {"a": one, "b": 1},
        lambda record: record.update(dict.fromkeys(range(99))),
    ),
    "a dict that shrinks": (lambda one: {"a": one, "b": 1}, lambda record: record.pop("b")),
    "a dict without itself": (lambda one: {"a": one, "b": 1}, lambda record: record.clear()),
    "a dict with other keys": (
        lambda one: {"a": one, "b": 1},
        lambda record: record.update(c=record.pop("a") and None),
    ),
}


@pytest.mark.parametrize(("make", "change"), CHANGES.values(), ids=CHANGES)
def test_a_container_changed_during_packing_is_refused(make: Any, change: Any) -> None:
    """Its length has been written already."""
    one, packer = meddling(lambda: change(record))
    record = make(one)
    with pytest.raises(RuntimeError, match="changed"):
        packer.pack((1, record))
    assert packer.pack((1, 2)) == b"\x92\x01\x02"


def test_replaced_elements_are_packed() -> None:
    """This holds even if nothing else refers to the replaced elements."""

    def replace() -> None:
        record[:] = ["x" * 50 for _ in range(3)]

    one, packer = meddling(replace)
    record: list[Any] = [one, object(), object()]
    data = packer.pack(record)
    assert data.endswith(pack("x" * 50) * 2)


@pytest.mark.parametrize("size", [10, 5_000, 2 << 20])
def test_packing_with_the_packer_that_is_at_work(size: int) -> None:
    """The second record may exceed the packer's memory, and may be refused."""
    packed: list[bytes] = []

    def pack_another() -> None:
        packed.append(packer.pack(["y" * size]))
        with pytest.raises(TypeError):
            packer.pack(["y" * size, object()])
        with pytest.raises(TypeError):
            packer.encode(["y" * size, object()], packer.form, packer.options)

    one, packer = meddling(pack_another)
    data = packer.pack(["before", one, "behind"])
    assert data.startswith(b"\x93\xa6before")
    assert data.endswith(b"\xa6behind")
    assert len(data) < 30
    assert packed == [pack(["y" * size])]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_an_error_leaves_nothing_behind(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    one, packer = meddling(fail)
    for _ in range(3):
        with pytest.raises(error):
            packer.pack(["before" * 1000, one])
        expected = error if error is KeyboardInterrupt else TypeError
        with pytest.raises(expected):
            packer.encode(["before" * 1000, one], packer.form, packer.options)
        assert packer.pack("after") == b"\xa5after"


def test_memory_of_one_large_record_is_released() -> None:
    packer = CompiledPacker(KNOWN)
    with traced_memory() as traced:
        packer.pack("x" * (4 << 20))
        with pytest.raises(TypeError):
            packer.pack(["x" * (4 << 20), object()])
        assert traced.now < 1 << 20
        assert traced.peak > 8 << 20


def test_a_packer_that_was_not_made_packs_nothing_of_others() -> None:
    with pytest.raises(TypeError):
        CompiledPacker.__new__(CompiledPacker).pack(object())
    with pytest.raises(TypeError):
        CompiledPacker()


# -- depth -----------------------------------------------------------------------------------------


def test_the_deepest_record_needs_no_more_stack_than_there_is() -> None:
    """Objects are nested in one another, each with the largest depth inside."""
    record: Any = None
    for level in range(EXTENSIONS_NESTED_MAX):
        for depth in range(NESTING_MAX - 1):
            record = {1: record} if depth % 2 else [record]
        record = Slotted(level, record)
    data = pack(record)
    assert len(data) > EXTENSIONS_NESTED_MAX * NESTING_MAX
    assert PlainUnpacker(1 << 20, 1 << 20, lambda code, content: code).unpack(data) is not None


def test_a_packer_holds_one_value_behind_the_other() -> None:
    builder = BufferBuilder(MemorySegment(8), Recycler())
    first, second = packer.hold("one"), packer.hold((2, 2))
    assert packer.write(second, builder) is None
    assert packer.write(first, builder) is None
    assert (builder.records, builder.remaining) == (2, 1)
    assert packer.write(packer.hold("four"), builder) == packer.pack("four")
    roomy = BufferBuilder(MemorySegment(2 * COUNTED_FROM_BYTES), Recycler())
    longest, longer = [None] * (COUNTED_FROM_BYTES - 3), [None] * (COUNTED_FROM_BYTES - 2)
    assert packer.write(packer.hold(longest), roomy) is None
    assert packer.write(packer.hold(longer), roomy) == packer.pack(longer)
    assert (roomy.records, roomy.remaining) == (1, COUNTED_FROM_BYTES)
    released = packer.hold("five")
    packer.release(released)
    with pytest.raises(Exception, match="object"):
        packer.hold((1, object()))
    assert packer.hold("six") == released
    packer.release(released)
    whole = builder.seal()
    assert bytes(whole.view()) == packer.pack((2, 2)) + packer.pack("one")
    whole.recycle()

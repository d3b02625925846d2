"""The channels of keyed tuples: the same as by ``select``, or none, as in plain Python."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.compiled_modules import COMPILED
from flinknet.functions.type_information import Types, converter
from flinknet.records.conversion import ConvertedKey
from flinknet.records.partitioner import HashPartitioner
from flinknet.records.remembered_channels import RememberedChannels
from flinknet.records.tuple_channels import TupleChannels

compiled = pytest.mark.skipif(not COMPILED, reason="in plain Python none is found")

NOT_KNOWN = -1

EDGES = [sign * (2**bits) + more for bits in range(65) for sign in (-1, 1) for more in (-1, 0, 1)]


class Pair(NamedTuple):
    key: int
    value: int


class Text(str):
    """A text subclass that may be equal to anything."""

    __slots__ = ()


def partitioner(channels: int = 3, max_parallelism: int = 128, **options: Any) -> HashPartitioner:
    made = HashPartitioner(options.get("key", itemgetter(0)), max_parallelism)
    made.setup(channels)
    return made


def found(made: HashPartitioner, record: Any) -> int:
    channels: Any = TupleChannels.of(
        made._key, made._max_parallelism, made.channels, made._remembered
    )
    channel: int = channels.channel(record)
    return channel


@compiled
@pytest.mark.parametrize("key", EDGES)
def test_an_integers_channel_is_what_select_says(key: int) -> None:
    made = partitioner(7, 1000)
    chosen = found(made, (key, "value"))
    if -(2**63) <= key < 2**63:
        assert chosen == made.select((key, "value"))
    else:
        assert chosen == NOT_KNOWN
    assert 0 <= made.select((key, "value")) < 7


@compiled
@given(
    st.integers(-(2**70), 2**70) | st.integers(-300, 300),
    st.integers(1, 32_768),
    st.integers(1, 300),
    st.integers(0, 2),
)
def test_for_any_number_of_key_groups_and_channels(
    key: int, max_parallelism: int, channels: int, index: int
) -> None:
    channels = min(channels, max_parallelism)
    record = (key, -key, key // 2)
    made = partitioner(channels, max_parallelism, key=itemgetter(index))
    chosen = found(made, record)
    assert chosen in (NOT_KNOWN, made.select(record))
    assert (chosen == NOT_KNOWN) == (not -(2**63) <= record[index] < 2**63)


@compiled
def test_text_is_found_once_it_is_remembered() -> None:
    made = partitioner()
    assert found(made, ("a key",)) == NOT_KNOWN
    channel = made.select(("a key",))
    assert found(made, ("a key",)) == channel
    made._remembered.forget()
    assert found(made, ("a key",)) == NOT_KNOWN


@compiled
@pytest.mark.parametrize(
    "record",
    [[1], Pair(1, 2), (), 7, (True,), (1.0,), (None,), (Text("a"),), ((1,),), ([],)],
    ids=repr,
)
def test_everything_else_is_left_to_select(record: Any) -> None:
    assert found(partitioner(), record) == NOT_KNOWN


@compiled
@pytest.mark.parametrize(
    "key",
    [itemgetter(-1), itemgetter(0, 1), itemgetter("a"), itemgetter(True), attrgetter("a"), len],
    ids=repr,
)
def test_only_one_element_from_the_start_is_a_key(key: Any) -> None:
    remembered = RememberedChannels(key, len, 1000)
    assert TupleChannels.of(key, 128, 2, remembered) is None


@compiled
def test_an_element_that_is_missing_is_not_looked_for() -> None:
    assert found(partitioner(key=itemgetter(2)), (1, 2)) == NOT_KNOWN


def test_a_partitioner_that_chooses_differently_is_called() -> None:
    class Otherwise(HashPartitioner):
        def select(self, record: Any) -> int:
            return 0

    made = Otherwise(itemgetter(0))
    made.setup(3)
    assert made.tuple_channels is None
    assert (partitioner().tuple_channels is not None) == COMPILED
    assert partitioner(key=lambda record: record[0]).tuple_channels is None


@compiled
def test_a_key_of_a_declared_type_is_found_if_it_is_what_that_says() -> None:
    for type_info, key, others in (
        (Types.INT(), 7, [2**31, True, "7", None]),
        (Types.STRING(), "seven", [7, None]),
    ):
        conversion = converter(type_info)
        assert conversion is not None
        made = partitioner(key=ConvertedKey(itemgetter(0), conversion))
        chosen = made.select((key, "value"))
        assert found(made, (key, "value")) == chosen
        assert all(found(made, (other, "value")) == NOT_KNOWN for other in others)
        with pytest.raises(TypeError, match="the type is"):
            made.select(([], "value"))

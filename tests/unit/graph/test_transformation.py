"""The partitioner of a stream, by the name that the stream gives it."""

from __future__ import annotations

from functools import partial
from operator import itemgetter

import pytest

from flinknet.graph import transformation
from flinknet.graph.transformation import (
    FORWARD,
    SHUFFLE,
    OperatorKind,
    Partitioning,
    Transformation,
    custom_partitioning,
    hash_partitioning,
)
from flinknet.records.key_groups import key_group

KEYLESS = [value for value in vars(transformation).values() if isinstance(value, Partitioning)]


def test_there_are_partitionings_to_check() -> None:
    assert {FORWARD, SHUFFLE} <= set(KEYLESS)
    assert len({partitioning.name for partitioning in KEYLESS}) == len(KEYLESS)


@pytest.mark.parametrize("partitioning", KEYLESS, ids=lambda partitioning: partitioning.name)
def test_each_subtask_has_a_partitioner_of_its_own(partitioning: Partitioning) -> None:
    """It may count or remember by itself."""
    make = partitioning.factory(128)
    one, other = make(), make()
    assert one is not other
    assert type(one) is type(other)


def test_a_hash_partitioner_follows_the_key_groups() -> None:
    partitioner = hash_partitioning(itemgetter(0)).factory(64)()
    partitioner.setup(4)
    for key in range(100):
        assert partitioner.select((key, "value")) == key_group(key, 64) * 4 // 64


def test_a_custom_partitioner_asks_the_users_function() -> None:
    asked: list[tuple[object, int]] = []

    def choose(key: int, channels: int) -> int:
        asked.append((key, channels))
        return key % channels

    partitioner = custom_partitioning(choose, itemgetter(0)).factory(64)()
    partitioner.setup(3)
    assert partitioner.select((7, "value")) == 1
    assert asked == [(7, 3)]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (OperatorKind.SOURCE, "Source: flights"),
        (OperatorKind.ONE_INPUT, "flights"),
        (OperatorKind.SINK, "Sink: flights"),
    ],
)
def test_an_operator_is_shown_with_what_it_is(kind: OperatorKind, shown: str) -> None:
    made = Transformation(kind, "flights", partial(pytest.fail, "it is only named"), ())
    assert made.display_name == shown

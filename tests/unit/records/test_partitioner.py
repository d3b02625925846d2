from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from itertools import permutations
from operator import itemgetter
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import ConfigurationError, SerializationError
from flinknet.records.key_groups import key_group, operator_index
from flinknet.records.partitioner import (
    AdaptiveRebalancePartitioner,
    AdaptiveRescalePartitioner,
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from tests.traced_memory import traced_memory
from tests.unit.records import library_keys


def set_up(partitioner: Partitioner, channels: int, **options: int) -> Partitioner:
    partitioner.setup(channels, **options)
    return partitioner


def choices(partitioner: Partitioner, number: int) -> list[int]:
    return [partitioner.select(record) for record in range(number)]


def test_forward_goes_to_the_only_channel() -> None:
    """Q1."""
    assert choices(set_up(ForwardPartitioner(), 1), 3) == [0, 0, 0]
    with pytest.raises(ConfigurationError, match="both sides need the same parallelism"):
        ForwardPartitioner().setup(2)


def test_global_goes_to_the_first() -> None:
    """Q1."""
    assert choices(set_up(GlobalPartitioner(), 4), 3) == [0, 0, 0]


@pytest.mark.parametrize("subtask_index", [0, 1, 2, 5])
def test_rebalance_goes_round_from_the_subtasks_own_start(subtask_index: int) -> None:
    """Q1: 0, 1, 2, 0."""
    partitioner = set_up(RebalancePartitioner(), 3, subtask_index=subtask_index, parallelism=6)
    start = subtask_index % 3
    assert choices(partitioner, 7) == [(start + turn) % 3 for turn in range(7)]


def test_rescale_goes_round_from_the_first() -> None:
    """Q1: this holds for every writing subtask."""
    partitioner = set_up(RescalePartitioner(), 3, subtask_index=2, parallelism=4)
    assert choices(partitioner, 5) == [0, 1, 2, 0, 1]


def test_one_channel_is_every_turn() -> None:
    assert choices(set_up(RebalancePartitioner(), 1, subtask_index=3), 3) == [0, 0, 0]


# -- adaptive --------------------------------------------------------------------------------------


class Queue:
    """An OutputQueue of a given length."""

    def __init__(
        self, queued_buffers: int, queued_bytes: int = 0, *, released: bool = False
    ) -> None:
        self.load = queued_buffers * 10**9 + queued_bytes
        self.released = released


def adaptive(
    *queued: int | tuple[int, int], candidates: int = 4, start: int = 0
) -> AdaptiveRebalancePartitioner:
    """Return a partitioner over queues of these lengths in buffers, or in buffers and bytes.

    Its next channel is ``start``.
    """
    partitioner = AdaptiveRebalancePartitioner(candidates)
    partitioner.setup(len(queued), subtask_index=start)
    partitioner.observe(
        [Queue(*length) if isinstance(length, tuple) else Queue(length) for length in queued]
    )
    return partitioner


@pytest.mark.parametrize("make", [AdaptiveRebalancePartitioner, AdaptiveRescalePartitioner])
def test_an_adaptive_choice_is_among_two_or_more(make: Callable[[int], Partitioner]) -> None:
    """A22."""
    for candidates in (-1, 0, 1):
        with pytest.raises(ConfigurationError, match=f"with {candidates} candidates .* 2 or more"):
            make(candidates)
    make(2)


@pytest.mark.parametrize(
    ("queued", "start", "chosen"),
    [
        ((5, 4, 3, 4), 0, 2),
        ((5, 3, 3, 3), 0, 1),
        ((5, 3, 3, 3), 2, 2),
        ((5, 0, 0, 9), 0, 1),
        ((5, 0, 0, 9), 3, 1),
        ((0, 0, 0, 0), 3, 3),
        ((9, 9, 9, 8, 0, 0), 0, 3),
        ((9, 9, 9, 8, 0, 5), 4, 4),
        ((9, 0, 9, 8, 7, 5), 4, 1),
        ((7,), 0, 0),
        ((9, 8), 1, 1),
    ],
)
def test_the_fewest_queued_buffers_of_four(
    queued: tuple[int, ...], start: int, chosen: int
) -> None:
    """Row 55: from the next channel on, the first empty queue is chosen, else the shortest, and of
    equals the first."""
    assert adaptive(*queued, start=start).select("record") == chosen


@pytest.mark.parametrize(
    ("queued", "chosen"),
    [
        (((10, 2_560), (1, 30_000)), 1),
        (((2, 100), (1, 9_000), (1, 8_000), (1, 8_000)), 2),
        (((1, 100), (0, 0), (1, 0)), 1),
        (((3, 50), (3, 49), (4, 1)), 1),
    ],
)
def test_bytes_only_decide_between_as_many_buffers(
    queued: tuple[tuple[int, int], ...], chosen: int
) -> None:
    """Row 55: this holds even if the buffers of one queue are very small."""
    assert adaptive(*queued).select("record") == chosen


def test_only_the_candidates_are_compared() -> None:
    """Row 55."""
    assert adaptive(3, 2, 0, 1, candidates=2).select("record") == 1
    assert adaptive(3, 2, 0, 1, candidates=3).select("record") == 2
    assert adaptive(3, 2, 1, 1, candidates=100).select("record") == 2


def test_the_next_choice_begins_behind_the_last_one() -> None:
    """Equal channels therefore get their turn."""
    assert choices(adaptive(1, 1, 1), 5) == [0, 1, 2, 0, 1]
    assert choices(adaptive(0, 0, 0, start=2), 5) == [2, 0, 1, 2, 0]
    assert choices(adaptive(5, 1, 2, 2), 3) == [1, 1, 1]


def test_a_consumer_that_has_gone_attracts_nothing() -> None:
    """Its queue is always empty; only live consumers are candidates."""
    partitioner = adaptive(0, 0, 0, 7, 7, 0, candidates=2)
    queues = [Queue(0, released=True) for _ in range(3)] + [Queue(7), Queue(6), Queue(0)]
    partitioner.observe(queues)
    assert partitioner.select("record") == 4
    for queue in queues:
        queue.released = True
    assert choices(partitioner, 3) == [5, 0, 1]


def test_adaptive_rescale_starts_at_the_first() -> None:
    partitioner = set_up(AdaptiveRescalePartitioner(), 3, subtask_index=2, parallelism=4)
    partitioner.observe([Queue(0) for _ in range(3)])
    assert choices(partitioner, 4) == [0, 1, 2, 0]


# -- random, broadcast, by key ---------------------------------------------------------------------


def test_shuffle_stays_in_range_and_can_be_repeated() -> None:
    """Q1."""
    first = choices(set_up(ShufflePartitioner(Random(7).randrange), 5), 500)
    assert set(first) == set(range(5))
    assert choices(set_up(ShufflePartitioner(Random(7).randrange), 5), 500) == first


def test_broadcast_does_not_select() -> None:
    """Q1."""
    partitioner = set_up(BroadcastPartitioner(), 3)
    assert partitioner.is_broadcast
    with pytest.raises(AssertionError, match="does not select"):
        partitioner.select("record")


@given(st.integers(1, 128), st.lists(st.text() | st.integers(0, 50), max_size=30))
def test_the_same_key_goes_to_the_same_channel(channels: int, keys: list[str | int]) -> None:
    """Q2: the owner of the key's group, for 1 to n channels, remembered or not."""
    partitioner = set_up(HashPartitioner(itemgetter(0)), channels)
    for key in keys * 2:
        expected = operator_index(key_group(key, 128), 128, channels)
        assert partitioner.select((key, "value")) == expected


def test_the_key_group_of_a_record_decides_its_channel() -> None:
    partitioner = HashPartitioner(itemgetter(0), max_parallelism=64)
    partitioner.setup(4)
    for key in range(100):
        group = partitioner.key_group_of((key, "value"))
        assert group == key_group(key, 64)
        assert operator_index(group, 64, 4) == partitioner.select((key, "value"))


def test_the_maximum_parallelism_decides_the_groups() -> None:
    few = set_up(HashPartitioner(lambda record: record, max_parallelism=4), 4)
    assert choices(few, 100) == [key_group(record, 4) for record in range(100)]
    with pytest.raises(ConfigurationError, match="to 5 subtasks has only 4 key groups"):
        HashPartitioner(lambda record: record, max_parallelism=4).setup(5)


def test_a_new_set_up_forgets_the_channels_of_the_old_one() -> None:
    partitioner = set_up(HashPartitioner(lambda record: record), 8)
    choices(partitioner, 100)
    partitioner.setup(2)
    assert set(choices(partitioner, 100)) == {0, 1}


def test_a_key_that_python_cannot_hash_still_has_a_channel() -> None:
    partitioner = set_up(HashPartitioner(lambda record: record), 16)
    for key in ([1, "a"], [2], [[3]]):
        as_tuple = tuple(tuple(part) if isinstance(part, list) else part for part in key)
        assert partitioner.select(key) == partitioner.select(as_tuple)


@pytest.mark.parametrize("key", [{1}, object(), [{1}]], ids=["set", "object", "list"])
def test_a_record_without_a_key_is_refused(key: object) -> None:
    """Q2."""
    with pytest.raises(SerializationError, match="key"):
        set_up(HashPartitioner(lambda record: record), 2).select(key)


@pytest.mark.parametrize(
    "key_of",
    [
        int,
        "key {}".format,
        lambda number: "\U0001f600" * 5_000 + str(number),
        lambda number: (number, (str(number), None, 0.5 + number)),
        lambda number: 2**20_000 + number,
        lambda number: Decimal(f"0.{number + 1}{'1' * 200}"),
        lambda number: Decimal("1." + "0" * number),
        lambda number: date.fromordinal(number + 1),
        lambda number: datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=number))),
        lambda number: UUID(int=number),
    ],
    ids=["int", "str", "long str", "tuple", "long int", "Decimal", "long zeros", "date",
         "datetime", "UUID"],
)  # fmt: skip
def test_remembered_keys_are_bounded_in_bytes(key_of: Callable[[int], object]) -> None:
    """A stream of ever new keys of any length does not grow the writer."""
    partitioner = HashPartitioner(key_of)
    limit = 256 * 1024
    partitioner.remember_at_most(limit)
    partitioner.setup(3)
    partitioner.select(0)
    gc.collect()
    with traced_memory() as memory:
        before = memory.now
        for number in range(1, 3_000):
            partitioner.select(number)
            assert memory.now - before < limit + 64 * 1024
    assert partitioner.select(5) == operator_index(key_group(key_of(5), 128), 128, 3)


def test_a_key_longer_than_what_may_be_remembered_is_hashed_each_time() -> None:
    partitioner = HashPartitioner(lambda record: record)
    partitioner.remember_at_most(1_000)
    partitioner.setup(3)
    for key in ("short", "x" * 10_000):
        first = partitioner.select(key)
        assert [partitioner.select(key) for _ in range(3)] == [first] * 3
    assert partitioner._remembered.keys() == []
    partitioner.select("short")
    assert partitioner._remembered.keys() == ["short"]


def test_a_subclass_of_the_hash_partitioner_is_called() -> None:
    """Its ``select`` is called, which may call that of its base class."""

    class Shifted(HashPartitioner):
        def select(self, record: object) -> int:
            return (super().select(record) + 1) % 3

    shifted, plain = set_up(Shifted(lambda record: record), 3), HashPartitioner(lambda key: key)
    plain.setup(3)
    for key in range(20):
        assert shifted.select(key) == (plain.select(key) + 1) % 3
    assert sum(map(len, shifted.divide(list(range(20))).values())) == 20


def test_no_key_at_all_is_remembered_in_no_memory() -> None:
    partitioner = HashPartitioner(lambda record: record)
    partitioner.remember_at_most(0)
    partitioner.setup(3)
    assert len({partitioner.select("a") for _ in range(3)}) == 1
    assert partitioner._remembered.keys() == []


class Number(IntEnum):
    SEVEN = 7


EQUAL: list[tuple[object, ...]] = [
    (7, 7.0, Decimal(7), Decimal("7.00"), Fraction(7), complex(7), Number.SEVEN),
    *library_keys.EQUAL,
]


@pytest.mark.parametrize(
    ("first", "second"), [pair for equal in EQUAL for pair in permutations(equal, 2)], ids=repr
)
def test_the_channel_of_a_key_does_not_depend_on_earlier_keys(
    first: object, second: object
) -> None:
    """Equal keys go to one channel; it does not matter which one is remembered."""
    group = key_group(first, 128)
    partitioner = set_up(HashPartitioner(lambda record: record), 128)
    assert partitioner.select(second) == group
    partitioner = set_up(HashPartitioner(lambda record: record), 128)
    assert partitioner.select(first) == group
    assert partitioner.select(second) == group
    assert partitioner.select((second, "a")) == partitioner.select((first, "a"))


def test_a_custom_function_gets_the_key_and_the_number_of_channels() -> None:
    partitioner = set_up(CustomPartitioner(lambda key, n: (key + 1) % n, itemgetter("id")), 4)
    assert [partitioner.select({"id": number}) for number in range(5)] == [1, 2, 3, 0, 1]


@pytest.mark.parametrize("choice", [-1, 4, 100])
def test_a_custom_choice_out_of_range_is_refused(choice: int) -> None:
    partitioner = set_up(CustomPartitioner(lambda key, n: choice, itemgetter(0)), 4)
    with pytest.raises(ConfigurationError, match=f"chose channel {choice} of 4"):
        partitioner.select(("key",))


@pytest.mark.parametrize(
    ("make", "pointwise"),
    [(ForwardPartitioner, True), (RescalePartitioner, True), (RebalancePartitioner, False),
     (AdaptiveRescalePartitioner, True), (AdaptiveRebalancePartitioner, False),
     (GlobalPartitioner, False), (BroadcastPartitioner, False)],
)  # fmt: skip
def test_which_exchanges_are_pointwise(make: Callable[[], Partitioner], pointwise: bool) -> None:
    """Section 4."""
    assert make().is_pointwise is pointwise


@pytest.mark.parametrize(
    "partitioner",
    [RebalancePartitioner(), RescalePartitioner(), HashPartitioner(itemgetter(0))],
    ids=lambda partitioner: type(partitioner).__name__,
)
def test_a_copy_chooses_like_its_original(partitioner: Partitioner) -> None:
    """Q5, by meaning: subtasks get copies."""
    copied = copy.deepcopy(partitioner)
    records = [(number,) for number in range(50)]
    selected = [
        [set_up_one.select(record) for record in records]
        for set_up_one in (set_up(partitioner, 5), set_up(copied, 5))
    ]
    assert selected[0] == selected[1]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    "make",
    [
        GlobalPartitioner,
        RebalancePartitioner,
        RescalePartitioner,
        lambda: HashPartitioner(lambda record: record % 13),
        lambda: HashPartitioner(lambda record: [record % 13]),
        lambda: ShufflePartitioner(Random(5).randrange),
    ],
)
def test_many_records_are_divided_as_one_by_one(
    make: Callable[[], Partitioner], number: int
) -> None:
    """The next records continue from there."""
    one_by_one, divided = set_up(make(), 3), set_up(make(), 3)
    for records in (list(range(number)), list(range(5))):
        expected: dict[int, list[int]] = {}
        for record in records:
            expected.setdefault(one_by_one.select(record), []).append(record)
        shares = divided.divide(records)
        assert {channel: share for channel, share in shares.items() if share} == expected


def test_dividing_fails_as_choosing_does() -> None:
    """An error of the key's function is raised, even one that would end a ``map`` early."""

    def key(record: int) -> int:
        if record == 2:
            raise StopIteration("no key")
        return record

    partitioner = set_up(HashPartitioner(key), 3)
    partitioner.divide([0, 1, 3])
    with pytest.raises(StopIteration, match="no key"):
        partitioner.divide([0, 1, 2, 3])
    with pytest.raises(SerializationError, match="a key of type set cannot be hashed"):
        set_up(HashPartitioner(lambda record: {record}), 3).divide([0])


def test_a_subclass_of_global_that_selects_otherwise_is_asked() -> None:
    class ToTheLast(GlobalPartitioner):
        def select(self, record: object) -> int:
            return self.channels - 1

    assert GlobalPartitioner.selects_first
    assert not ToTheLast.selects_first


@pytest.mark.parametrize("make", [RebalancePartitioner, RescalePartitioner])
def test_with_one_channel_there_is_no_choice(make: Callable[[], Partitioner]) -> None:
    assert set_up(make(), 1).selects_first
    assert not set_up(make(), 2).selects_first


def test_a_subclass_of_rebalance_is_asked_for_its_one_channel() -> None:
    class Noted(RebalancePartitioner):
        def select(self, record: object) -> int:
            return super().select(record)

    assert not set_up(Noted(), 1).selects_first


def test_a_subclass_that_selects_otherwise_is_asked_for_every_record() -> None:
    """This holds even if its base can divide many records at once."""

    class Backwards(RebalancePartitioner):
        def select(self, record: int) -> int:
            return self.channels - 1 - super().select(record)

    partitioner = set_up(Backwards(), 3)
    assert choices(partitioner, 4) == [2, 1, 0, 2]
    assert dict(partitioner.divide([1, 2, 3, 4])) == {1: [1, 4], 0: [2], 2: [3]}


def test_records_that_go_one_way_are_divided_at_once() -> None:
    records = [1, 2, 3]
    assert ForwardPartitioner().divide(records) == {0: records}


def test_a_partitioner_that_cuts_no_records_is_not_to_be_asked() -> None:
    partitioner = ForwardPartitioner()
    assert not partitioner.cuts_records
    with pytest.raises(AssertionError, match="ForwardPartitioner does not split records"):
        partitioner.cut([1])

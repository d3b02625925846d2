from __future__ import annotations

import pickle
from itertools import islice
from typing import Any

import pytest

from flinknet.compiled_modules import COMPILED
from flinknet.records.partitioner import Partitioner, RebalancePartitioner
from flinknet.records.round_robin import round_robin
from tests.plain_module import plain_module
from tests.unit.arrangements import run
from tests.unit.records.writing import Arranged


@pytest.fixture(params=["plain", "as it is"])
def kind(request: pytest.FixtureRequest) -> Any:
    """Return the plain and the active form of the turns."""
    if request.param == "plain":
        return plain_module("flinknet.records.round_robin").round_robin
    return round_robin


@pytest.mark.parametrize(
    ("channels", "first", "turns"),
    [(1, 0, [0, 0, 0]), (3, 0, [0, 1, 2, 0, 1]), (3, 2, [2, 0, 1, 2, 0])],
)
def test_every_channel_has_its_turn(kind: Any, channels: int, first: int, turns: list[int]) -> None:
    channel = kind(channels, first)
    assert iter(channel) is channel
    assert list(islice(channel, len(turns))) == turns
    assert next(channel) == (turns[-1] + 1) % channels


@pytest.mark.skipif(not COMPILED, reason="plain, the modulo of what counts is taken before")
@pytest.mark.parametrize(("channels", "first"), [(0, 0), (3, 3), (3, -1)])
def test_compiled_no_channel_is_made_up(channels: int, first: int) -> None:
    with pytest.raises(ValueError, match="there is no channel"):
        round_robin(channels, first)


@pytest.mark.skipif(not COMPILED, reason="an iterator of itertools has no copies from 3.14 on")
def test_compiled_turns_go_on_in_a_copy() -> None:
    """The model search copies every object of its worlds."""
    channel = round_robin(3, 1)
    next(channel)
    again = pickle.loads(pickle.dumps(channel))
    assert [next(again), next(again), next(channel)] == [2, 0, 2]


@pytest.mark.parametrize("many", [False, True])
def test_select_and_divide_share_one_position(many: bool) -> None:
    """A writer takes turns by one record or by many, with ``select`` and ``divide``."""
    partitioner = RebalancePartitioner()
    arranged = Arranged(5, partitioner=partitioner)
    arranged.emit(0)
    assert partitioner.select(1) == 1
    assert partitioner.divide([2, 3]) == {2: [2], 3: [3]}
    if many:
        run(arranged.writer.emit_many([4, 5, 6]))
    else:
        arranged.emit(4, 5, 6)
    assert partitioner.select(7) == 2
    assert [arranged.take(channel) for channel in range(5)] == [[0, 5], [6], [], [], [4]]


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_large_record_takes_one_turn(size: int) -> None:
    arranged = Arranged(3, partitioner=RebalancePartitioner(), segment_bytes=1 << 18)
    records = [bytes((number,)) * size for number in range(5)]
    arranged.emit(*records[:2])
    run(arranged.writer.emit_many(records[2:]))
    for channel in range(3):
        assert arranged.take(channel) == records[channel::3]


class ToTheLast(RebalancePartitioner):
    def select(self, record: Any) -> int:
        return self.channels - 1


class ToTheSecond(RebalancePartitioner):
    def setup(self, channels: int, **of_the_writer: Any) -> None:
        super().setup(channels, **of_the_writer)
        self.select = lambda record: 1  # type: ignore[method-assign]


@pytest.mark.parametrize(("partitioner", "channel"), [(ToTheLast(), 4), (ToTheSecond(), 1)])
def test_a_subclass_with_its_own_select_is_called(partitioner: Partitioner, channel: int) -> None:
    arranged = Arranged(5, partitioner=partitioner)
    run(arranged.writer.emit("a"))
    run(arranged.writer.emit_many(["b"]))
    assert arranged.take(channel) == ["a", "b"]

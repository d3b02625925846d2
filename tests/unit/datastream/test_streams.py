"""The DataStream API raises an error in the call that cannot work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flinknet.datastream import (
    FilterFunction,
    KeyedProcessFunction,
    KeySelector,
    MapBatchFunction,
    MapFunction,
    ProcessBatchFunction,
    ProcessContext,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flinknet.datastream.streams import DataStream, KeyedStream
from flinknet.errors import ConfigurationError
from tests.columns import needs_columns


class Increment(MapFunction):
    def map(self, value: Any) -> Any:
        return value + 1


class Parity(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value % 2


class Count(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield value


class Copy(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield value


class Keep(FilterFunction):
    def filter(self, value: Any) -> bool:
        return True


class Shuffled(MapBatchFunction):
    def map_batch(self, values: list[Any]) -> list[Any]:
        return values[::-1]


class Counted(ProcessBatchFunction):
    def process_batch(self, key: Any, values: list[Any]) -> Iterator[Any]:
        yield key, len(values)


async def coroutine_function(value: Any) -> Any:
    return value


@pytest.fixture
def stream() -> DataStream:
    return StreamExecutionEnvironment().from_collection([1, 2, 3])


@needs_columns
def test_methods_return_the_streams_that_pyflink_returns(stream: DataStream) -> None:
    keyed = stream.key_by(Parity())

    assert isinstance(keyed, KeyedStream)
    assert type(keyed.map(Increment())) is DataStream
    assert type(keyed.reduce(max)) is DataStream
    assert type(keyed.process_batch(Counted())) is DataStream
    assert type(keyed.map_batch(Shuffled())) is DataStream
    assert type(stream.key_by_columns("a", "b")) is DataStream
    assert type(stream.union(stream)) is DataStream
    assert stream.name("numbers") is stream
    assert stream.map(Increment()).uid("u").set_parallelism(1).start_new_chain() is not stream


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.map(5), "map needs a callable or an object with a map method, not int"),
        (lambda s: s.map(Increment), r"Increment is a class: pass an instance, Increment\(...\)"),
        (lambda s: s.map(Keep()), "map needs a callable .* not Keep"),
        (lambda s: s.filter(Increment()), "filter needs a callable"),
        (lambda s: s.flat_map(None), "flat_map needs a callable"),
        (lambda s: s.process(Count()), "Count is a KeyedProcessFunction.* key_by"),
        (lambda s: s.key_by(0), "get_key needs a callable"),
        (lambda s: s.key_by(coroutine_function), "key selector .* cannot be a coroutine"),
        (lambda s: s.key_by(Parity()).reduce(coroutine_function), "reduce cannot be a coroutine"),
        (lambda s: s.key_by(Parity()).reduce(max, emit="sometimes"), "emit is 'sometimes'"),
        (lambda s: s.key_by(Parity()).aggregate(max), "aggregate needs an AggregateFunction"),
        (lambda s: s.map_batch(Counted()), "map_batch needs a callable .* not Counted"),
        (lambda s: s.map_batch(Shuffled), r"Shuffled is a class: pass an instance"),
        (lambda s: s.key_by(Parity()).process_batch(Shuffled()), "process_batch needs a callable"),
        (lambda s: s.key_by(Parity()).process_batch(1), "process_batch needs a callable"),
        pytest.param(
            lambda s: s.key_by_columns(),
            "columns needs at least one column name",
            marks=needs_columns,
        ),
        (
            lambda s: s.key_by_columns(["a", "b"]),
            r"names of columns, .* not a list: \['a'",
        ),
        pytest.param(
            lambda s: s.key_by_columns("a").key_by(max),
            "by COLUMN HASH already, and HASH",
            marks=needs_columns,
        ),
        pytest.param(
            lambda s: s.key_by(max).key_by_columns("a"),
            "by HASH already, and COLUMN HASH would",
            marks=needs_columns,
        ),
        pytest.param(
            lambda s: s.key_by_columns("a").process(Count()),
            "Count is a KeyedProcessFunction",
            marks=needs_columns,
        ),
        (lambda s: s.sink_to(3), "invoke needs a callable"),
        (lambda s: s.set_parallelism(0), "parallelism is 0: choose 1 to 32768"),
        (lambda s: s.set_parallelism(2.5), "parallelism is 2.5: choose a whole number"),
        (lambda s: s.set_max_parallelism(32769), "choose 1 to 32768"),
        (lambda s: s.set_buffer_timeout(-2), "buffer_timeout_ms is -2"),
        (lambda s: s.partition_custom(7, Parity()), "partition needs a callable"),
    ],
)
def test_wrong_argument(stream: DataStream, build: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(stream)


@needs_columns
@pytest.mark.parametrize(
    "again", ["forward", "rebalance", "rescale", "shuffle", "broadcast", "global_"]
)
def test_partitioning_of_keyed_state_cannot_be_replaced(stream: DataStream, again: str) -> None:
    """Flink: "Cannot override partitioning for KeyedStream"."""
    for keyed, name in ((stream.key_by(Parity()), "HASH"), (stream.key_by_columns("a"), "COLUMN")):
        with pytest.raises(ConfigurationError, match=f'"Source: Coll.*" is partitioned by {name}'):
            getattr(keyed, again)()


def test_broadcast_cannot_feed_keyed_state(stream: DataStream) -> None:
    with pytest.raises(ConfigurationError, match="by BROADCAST already, and HASH would undo that"):
        stream.broadcast().key_by(Parity())


def test_settings_are_those_of_one_operator(stream: DataStream) -> None:
    with pytest.raises(ConfigurationError, match='call it on "Source: Collection" before'):
        stream.rebalance().set_parallelism(2)
    with pytest.raises(ConfigurationError, match="union of several"):
        stream.union(stream.map(Increment())).name("both")


def test_union_of_two_programs(stream: DataStream) -> None:
    other = StreamExecutionEnvironment().from_collection([4])

    with pytest.raises(ConfigurationError, match="one execution environment"):
        stream.union(other)


@needs_columns
@pytest.mark.parametrize("missing", ["pyarrow", "numpy"])
def test_columns_without_their_extra(
    stream: DataStream, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes from the call in the program, and from any module that would have to cut
    batches."""
    for module in ("columns.partitioner", "columns.row_channels"):
        monkeypatch.delitem(sys.modules, f"flinknet.records.{module}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(ConfigurationError, match=rf"needs {missing}: install flinknet\[arrow\]"):
        stream.key_by_columns("a")


def test_process_function_on_a_keyed_stream(stream: DataStream) -> None:
    """A plain process function is allowed there, as it needs no state."""
    assert type(stream.key_by(Parity()).process(Copy())) is DataStream

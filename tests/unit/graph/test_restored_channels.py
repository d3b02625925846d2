"""In-flight records are restored: each record once, in order, at any parallelism."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.checkpoint.channel_state import ChannelState
from flinknet.checkpoint.metadata import (
    CheckpointDirectory,
    CheckpointMetadata,
    OperatorState,
    StateKind,
    SubtaskState,
)
from flinknet.config import NetworkConfig
from flinknet.datastream import (
    BroadcastProcessFunction,
    DataStream,
    GeneratorSource,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.graph.deployment import consumers_of
from flinknet.graph.exchanges import exchanges_of
from flinknet.graph.graph import JobGraph
from flinknet.graph.restored_channels import RestoredChannels
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.wire.events import CheckpointKind
from tests.unit.runtime.checkpointed import store_in

UNPACKER = RecordUnpacker.of(NetworkConfig())
pack = RecordPacker().pack

Exchange = Callable[[DataStream], DataStream]
EXCHANGES: dict[str, Exchange] = {
    "default": lambda stream: stream,
    "keyed": lambda stream: stream.key_by(lambda record: record[1]),
    "rebalance": lambda stream: stream.rebalance(),
    "rescale": lambda stream: stream.rescale(),
    "custom": lambda stream: stream.partition_custom(
        lambda key, channels: key % channels, lambda record: record[1]
    ),
}


def job(exchange: Exchange, sources: int, targets: int) -> JobGraph:
    environment = StreamExecutionEnvironment().set_max_parallelism(16)
    stream = environment.from_source(GeneratorSource(lambda number: number, 1))
    stream = stream.set_parallelism(sources).uid("source")
    mapped = exchange(stream).map(lambda record: record).set_parallelism(targets).uid("target")
    mapped.start_new_chain()
    mapped.print().set_parallelism(targets)
    return environment.job_graph()


def checkpoint(
    directory: Path,
    graph: JobGraph,
    inputs: dict[int, dict[tuple[int, int], list[bytes]]],
    outputs: dict[int, dict[tuple[int, int], list[bytes]]],
) -> CheckpointMetadata:
    """Write in-flight data, as subtasks do, by their number."""

    async def written() -> CheckpointMetadata:
        store = store_in(directory)
        operators = []
        for vertex in graph.vertices:
            operator, *others = vertex.operators
            subtasks = []
            for index in range(vertex.parallelism):
                of_inputs = inputs.get(index, {}) if operator.uid == "target" else {}
                of_outputs = outputs.get(index, {}) if operator.uid == "source" else {}
                state = ChannelState(of_inputs, of_outputs)
                parts = {}
                for kind, blocks in (
                    (StateKind.INPUT, state.input_blocks()),
                    (StateKind.OUTPUT, state.output_blocks()),
                ):
                    name = f"{vertex.id}-{index}-0-{kind.value}"
                    where = CheckpointDirectory(False, 1, 0)
                    part = await store.write_part(where, name, blocks)
                    if part is not None:
                        parts[kind] = part
                subtasks.append(SubtaskState(index, parts))
            operators.append(
                OperatorState(
                    operator.uid, vertex.parallelism, vertex.max_parallelism, tuple(subtasks)
                )
            )
            operators += [
                OperatorState(other.uid, vertex.parallelism, vertex.max_parallelism)
                for other in others
            ]
        return CheckpointMetadata(
            *("job", "job", 0, 1, CheckpointKind.CHECKPOINT, 1, 2, tuple(operators)),
            exchanges=exchanges_of(graph),
        )

    return asyncio.run(written())


def read(directory: Path, metadata: CheckpointMetadata, graph: JobGraph) -> list[list[Any]]:
    """Return the records of each subtask of the target, in order: (producer, record)."""

    async def of(index: int) -> list[Any]:
        channels = RestoredChannels(store_in(directory), metadata, graph)
        return [
            (found.producer, record)
            async for found in channels.records_of(1, index, UNPACKER)
            for record in found.records
        ]

    async def all_of_them() -> list[list[Any]]:
        return [await of(index) for index in range(graph.vertices[1].parallelism)]

    return asyncio.run(all_of_them())


def cut(data: bytes, random: Random) -> tuple[list[bytes], list[bytes]]:
    """Cut a stream of bytes into chunks of the input and of the output."""
    ends = sorted(random.sample(range(len(data) + 1), min(len(data), random.randrange(6))))
    pieces = [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    pieces = [piece for piece in pieces if piece]
    at = random.randint(0, len(pieces))
    return pieces[:at], pieces[at:]


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from([*EXCHANGES]),
    before=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    after=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    random=st.randoms(use_true_random=False),
)
def test_every_record_comes_once_and_in_order(
    kind: str, before: tuple[int, int], after: tuple[int, int], random: Random
) -> None:
    """N1, N3, N4, N6: the data may be cut anywhere and read by any subtask."""
    exchange = EXCHANGES[kind]
    old, new = job(exchange, *before), job(exchange, *after)
    edge = old.edges[0]
    inputs: Any = defaultdict(lambda: defaultdict(list))
    outputs: Any = defaultdict(lambda: defaultdict(list))
    sent: dict[tuple[int, int], list[Any]] = {}
    for producer in range(before[0]):
        consumers = consumers_of(producer, *before, pointwise=edge.pointwise)
        partitioner = edge.partitioner()
        partitioner.setup(len(consumers), subtask_index=producer, parallelism=before[0])
        by_channel: dict[int, list[Any]] = {place: [] for place in range(len(consumers))}
        for number in range(random.randrange(40)):
            record = (producer, random.randrange(8), number, "x" * random.randrange(40))
            by_channel[partitioner.select(record)].append(record)
        for place, consumer in enumerate(consumers):
            sent[producer, consumer] = by_channel[place]
            first, rest = cut(b"".join(map(pack, by_channel[place])), random)
            producers = [
                one
                for one in range(before[0])
                if consumer in consumers_of(one, *before, pointwise=edge.pointwise)
            ]
            if first:
                inputs[consumer][0, producers.index(producer)] = first
            if rest:
                outputs[producer][0, place] = rest
    with TemporaryDirectory() as directory:
        metadata = checkpoint(Path(directory), old, inputs, outputs)
        found = read(Path(directory), metadata, new)
    everything = [record for records in sent.values() for record in records]
    assert sorted(record for some in found for _, record in some) == sorted(everything)
    for some in found:
        assert all(producer == record[0] for producer, record in some)
        for records in sent.values():
            mine = [record for _, record in some if record in records]
            assert mine == [record for record in records if record in mine]
    if before[1] == after[1]:
        for (_, consumer), records in sent.items():
            assert set(records) <= {record for _, record in found[consumer]}
    elif kind == "keyed":
        partitioner = new.edges[0].partitioner()
        partitioner.setup(after[1])
        for index, some in enumerate(found):
            assert all(partitioner.select(record) == index for _, record in some)


def test_records_of_columns_are_cut_by_their_keys(tmp_path: Path) -> None:
    batch = pa.record_batch({"key": list(range(40)), "value": list(range(40))})
    keyed: Exchange = lambda stream: stream.key_by_columns("key")  # noqa: E731
    old, new = job(keyed, 1, 1), job(keyed, 1, 2)
    metadata = checkpoint(tmp_path, old, {0: {(0, 0): [pack(batch)]}}, {})
    parts = [
        pa.Table.from_batches([record for _, record in some])
        for some in read(tmp_path, metadata, new)
    ]
    assert len(parts) == 2
    assert min(part.num_rows for part in parts) > 0
    assert sorted(pa.concat_tables(parts)["key"].to_pylist()) == list(range(40))


def broadcast(stream: DataStream) -> DataStream:
    return stream.broadcast()


def test_broadcast_records_cannot_be_redistributed(tmp_path: Path) -> None:
    old, new = job(broadcast, 1, 2), job(broadcast, 1, 3)
    in_flight = {index: {(0, 0): [pack((0, index))]} for index in range(2)}
    metadata = checkpoint(tmp_path, old, in_flight, {})
    assert read(tmp_path, metadata, old) == [[(0, (0, 0))], [(0, (0, 1))]]
    with pytest.raises(StateError, match="broadcast exchange .* from 2 to 3 subtasks"):
        read(tmp_path, metadata, new)


def test_nothing_in_flight_is_nothing_to_deal_out(tmp_path: Path) -> None:
    metadata = checkpoint(tmp_path, job(broadcast, 1, 2), {}, {})
    assert read(tmp_path, metadata, job(broadcast, 1, 3)) == [[], [], []]


def test_many_records_come_in_batches(tmp_path: Path) -> None:
    graph = job(EXCHANGES["rebalance"], 1, 1)
    numbers = [(0, number) for number in range(2_500)]
    metadata = checkpoint(tmp_path, graph, {}, {0: {(0, 0): [*map(pack, numbers)]}})
    assert read(tmp_path, metadata, graph) == [[(0, number) for number in numbers]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pack("a text")[:-1], "ends inside a record"),
        (b"\xc1", "is not a sequence of records: FormatError"),
        (b"\xd4\x63\x00", "is not a sequence of records"),
    ],
)
def test_bytes_other_than_records_are_damaged(tmp_path: Path, content: bytes, message: str) -> None:
    graph = job(EXCHANGES["rebalance"], 1, 1)
    metadata = checkpoint(tmp_path, graph, {0: {(0, 0): [content]}}, {})
    with pytest.raises(CheckpointCorruptedError, match=message) as raised:
        read(tmp_path, metadata, graph)
    assert "from subtask 0 to 0 in" in str(raised.value)


def test_an_exchange_that_is_not_there_any_more_is_refused(tmp_path: Path) -> None:
    graph = job(EXCHANGES["keyed"], 1, 1)
    for inputs, outputs in (
        ({0: {(1, 0): [b"\x01"]}}, {}),
        ({}, {0: {(1, 0): [b"\x01"]}}),
    ):
        metadata = checkpoint(tmp_path, graph, inputs, outputs)
        with pytest.raises(
            StateError, match="an unknown exchange of operator .* continue from a sav"
        ):
            read(tmp_path, metadata, graph)


def test_an_operator_that_is_not_there_any_more_is_refused(tmp_path: Path) -> None:
    graph = job(EXCHANGES["keyed"], 1, 1)
    metadata = checkpoint(tmp_path, graph, {0: {(0, 0): [b"\x01"]}}, {})
    without = metadata._replace(
        operators=tuple(one for one in metadata.operators if one.uid != "source")
    )
    with pytest.raises(CheckpointCorruptedError, match='operator "source", and no such operator'):
        read(tmp_path, without, graph)
    renamed = metadata._replace(
        operators=tuple(one._replace(uid=f"old {one.uid}") for one in metadata.operators),
        exchanges=tuple(one._replace(receiver=f"old {one.receiver}") for one in metadata.exchanges),
    )
    with pytest.raises(StateError, match='operator "source" to operator "old target" .HASH.'):
        read(tmp_path, renamed, graph)


def test_a_checkpoint_that_does_not_say_what_its_labels_are_is_refused(tmp_path: Path) -> None:
    graph = job(EXCHANGES["keyed"], 1, 1)
    metadata = checkpoint(tmp_path, graph, {0: {(0, 0): [b"\x01"]}}, {})._replace(exchanges=())
    with pytest.raises(StateError, match='on an unknown exchange of operator "target"'):
        read(tmp_path, metadata, graph)
    nothing = checkpoint(tmp_path, graph, {}, {})._replace(exchanges=())
    assert read(tmp_path, nothing, graph) == [[]]


def split_chain(sources: int) -> JobGraph:
    """Return a graph of three operators and a sink; with two sources, the map is in their chain."""
    environment = StreamExecutionEnvironment().set_max_parallelism(16).set_parallelism(2)
    source = environment.from_source(GeneratorSource(str, 1)).set_parallelism(sources).uid("source")
    mapped = source.map(lambda record: record).uid("map")
    mapped.key_by(lambda record: record[1]).map(str).uid("last").print().uid("print")
    return environment.job_graph()


def in_vertex(graph: JobGraph, metadata: CheckpointMetadata, directory: Path, uid: str) -> Any:
    """Return the records restored to the subtasks of the chain that begins with an operator."""
    (vertex,) = (one for one in graph.vertices if one.operators[0].uid == uid)

    async def of(index: int) -> list[Any]:
        channels = RestoredChannels(store_in(directory), metadata, graph)
        found = channels.records_of(vertex.id, index, UNPACKER)
        return [record async for some in found for record in some.records]

    return [asyncio.run(of(index)) for index in range(vertex.parallelism)]


def test_records_of_a_chain_are_restored_after_it_was_split(tmp_path: Path) -> None:
    """N6: with another parallelism of one operator, the exchanges have other numbers."""
    old, new = split_chain(2), split_chain(1)
    assert [len(graph.vertices) for graph in (old, new)] == [2, 3]
    metadata = checkpoint(tmp_path, old, {}, {1: {(0, 0): [pack(("mapped", 0))]}})
    assert in_vertex(new, metadata, tmp_path, "map") == [[], []]
    assert in_vertex(new, metadata, tmp_path, "last") == [[("mapped", 0)], []]


def test_records_in_flight_within_a_merged_chain_are_refused(tmp_path: Path) -> None:
    old, new = split_chain(1), split_chain(2)
    metadata = checkpoint(tmp_path, old, {}, {0: {(0, 1): [pack((0, 0))]}})
    with pytest.raises(StateError, match='"source" to operator "map" .REBALANCE. when'):
        in_vertex(new, metadata, tmp_path, "last")


def branches(*uids: str) -> JobGraph:
    environment = StreamExecutionEnvironment()
    source = environment.from_source(GeneratorSource(str, 1)).uid("source")
    for uid in uids:
        source.rebalance().map(str).uid(uid).print().uid(f"{uid} printed")
    return environment.job_graph()


def test_the_order_of_branches_may_change(tmp_path: Path) -> None:
    outputs = {0: {(0, 0): [pack("for a")], (1, 0): [pack("for b")]}}
    metadata = checkpoint(tmp_path, branches("a", "b"), {}, outputs)
    new = branches("new", "b", "a")
    assert [in_vertex(new, metadata, tmp_path, uid) for uid in ("new", "b", "a")] == [
        [[]],
        [["for b"]],
        [["for a"]],
    ]
    with pytest.raises(StateError, match='from operator "source" to operator "a" .REBALANCE.'):
        in_vertex(branches("b"), metadata, tmp_path, "b")


def test_two_exchanges_between_the_same_operators_stay_apart(tmp_path: Path) -> None:
    environment = StreamExecutionEnvironment()
    source = environment.from_source(GeneratorSource(str, 1)).uid("source")
    source.rebalance().union(source.rebalance()).map(str).uid("target").print()
    graph = environment.job_graph()
    assert len(graph.edges) == 2
    outputs = {0: {(0, 0): [pack("first")], (1, 0): [pack("second")]}}
    metadata = checkpoint(tmp_path, graph, {}, outputs)
    assert read(tmp_path, metadata, graph) == [[(0, "first"), (0, "second")]]


@pytest.mark.parametrize("kind", ["rebalance", "custom"])
def test_records_of_another_partitioner_are_refused(tmp_path: Path, kind: str) -> None:
    metadata = checkpoint(tmp_path, job(EXCHANGES[kind], 1, 2), {}, {0: {(0, 0): [pack((0, 1))]}})
    with pytest.raises(StateError, match='operator "source" to operator "target"'):
        read(tmp_path, metadata, job(EXCHANGES["keyed"], 1, 2))


def timed(targets: int) -> JobGraph:
    environment = StreamExecutionEnvironment().set_max_parallelism(16)
    source = environment.from_source(GeneratorSource(str, 1)).uid("source")
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stamped = source.assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda value, timestamp: int(value[1]))
    )
    keyed = stamped.key_by(lambda value: value[0])
    keyed.map(lambda value: value).set_parallelism(targets).uid("target").print()
    return environment.job_graph()


def test_records_with_timestamps_go_where_their_values_belong(tmp_path: Path) -> None:
    """N4: the key is that of the value, not of the tuple with the timestamp."""
    records = [(1_000 + number, (number % 8, number)) for number in range(32)]
    metadata = checkpoint(tmp_path, timed(1), {}, {0: {(0, 0): [*map(pack, records)]}})
    found = [[record for _, record in some] for some in read(tmp_path, metadata, timed(2))]
    assert sorted(record for some in found for record in some) == records
    keys = [{value[0] for _, value in some} for some in found]
    assert not keys[0] & keys[1]
    assert all(keys)


def test_a_second_input_has_a_gate_of_its_own(tmp_path: Path) -> None:
    """The producers' data of the two exchanges is told apart, too."""
    environment = StreamExecutionEnvironment()
    source = environment.from_source(GeneratorSource(str, 1)).uid("source")
    rules = source.broadcast(MapStateDescriptor("rules"))
    source.rebalance().connect(rules).process(Nothing()).uid("target").print()
    graph = environment.job_graph()
    outputs = {0: {(0, 0): [pack("first")], (1, 0): [pack("second")]}}
    inputs = {0: {(0, 0): [pack("one")], (1, 0): [pack("two")]}}
    metadata = checkpoint(tmp_path, graph, inputs, outputs)

    async def gates() -> list[Any]:
        channels = RestoredChannels(store_in(tmp_path), metadata, graph)
        return [(found.gate, found.records) async for found in channels.records_of(1, 0, UNPACKER)]

    assert asyncio.run(gates()) == [(0, ["one", "first"]), (1, ["two", "second"])]


class Nothing(BroadcastProcessFunction):
    """Does nothing with its records."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Do nothing."""

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        """Do nothing."""

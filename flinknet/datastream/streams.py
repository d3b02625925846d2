"""Streams: the DataStream API, with PyFlink's names.

A stream describes records that will flow when the job is executed. Its methods build the program
and return the next stream. Functions are plain callables, coroutine functions, or instances of the
classes in ``functions.py``. An argument that is wrong in any job raises ConfigurationError at once.
An argument that is wrong only with the rest of the job raises it at execution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Never, Protocol, overload

from flinknet.compatibility.subscripted import K, R, Subscripted, T_co, TypeVar
from flinknet.datastream.collected_records import CollectedRecords
from flinknet.datastream.connected_streams import BroadcastConnectedStream, ConnectedStreams
from flinknet.datastream.job_client import JobClient
from flinknet.datastream.operator_settings import OperatorSettings
from flinknet.datastream.sinks import CollectSink, PrintSink
from flinknet.datastream.windowed_stream import WindowedStream
from flinknet.errors import ConfigurationError
from flinknet.functions.accumulators import ExtremeBy, Maximum, Minimum, Projection, Sum
from flinknet.functions.calls import bound_function, is_awaiting
from flinknet.functions.evictors import CountEvictor
from flinknet.functions.functions import Function, KeyedProcessFunction
from flinknet.functions.triggers import CountTrigger, PurgingTrigger
from flinknet.functions.type_information import TupleTypeInfo, TypeInformation, Types, converter
from flinknet.functions.watermark_strategy import WatermarkStrategy
from flinknet.functions.windows import CountWindow, CountWindows, WindowAssigner
from flinknet.graph.transformation import (
    ADAPTIVE_REBALANCE,
    ADAPTIVE_RESCALE,
    BROADCAST,
    FORWARD,
    GLOBAL,
    REBALANCE,
    RESCALE,
    SHUFFLE,
    OperatorKind,
    Partitioning,
    StreamInput,
    Transformation,
    column_hash_partitioning,
    common_type,
    custom_partitioning,
    hash_partitioning,
)
from flinknet.operators.batch_operators import MapBatchOperator, ProcessBatchOperator
from flinknet.operators.keyed_operators import (
    AggregateOperator,
    EmitMode,
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ReduceOperator,
)
from flinknet.operators.operators import (
    CallableSinkOperator,
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    Operator,
    OperatorFactory,
    ProcessOperator,
)
from flinknet.operators.side_outputs import OutputTag
from flinknet.operators.sink import Sink, SinkOperator, TwoPhaseSink
from flinknet.operators.timestamps import AssignTimestampsOperator
from flinknet.records.conversion import ConvertedKey
from flinknet.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from flinknet.cluster.control.job_result import JobResult
    from flinknet.datastream.function_types import (
        Aggregates,
        AwaitingMapFunctionOf,
        BatchFunctionOf,
        FilterFunctionOf,
        FlatMapFunctionOf,
        KeyedBatchFunctionOf,
        KeySelectorOf,
        MapFunctionOf,
        OnlyTimersEmit,
        PartitionerOf,
        ProcessesWithTimers,
        ProcessFunctionOf,
        ReduceFunctionOf,
        SinkFunctionOf,
        TimersEmitNothing,
    )

__all__ = ["BroadcastStream", "DataStream", "DataStreamSink", "KeyedStream", "Program"]

S = TypeVar("S", default=Never)
U = TypeVar("U", default=Never)
"""The results of a function and of its timers."""


_KeyedOperator = Callable[[Any, Callable[[Any], Any]], Operator]


class Program(Protocol):
    """The execution environment as its streams see it: it collects operators and runs them."""

    def add_operator(
        self,
        kind: OperatorKind,
        name: str,
        factory: OperatorFactory,
        inputs: tuple[StreamInput, ...],
    ) -> Transformation:
        """Add an operator to the program."""

    def execute(self, job_name: str | None = None) -> JobResult:
        """Run the program to its end."""

    def execute_async(self, job_name: str = "") -> JobClient:
        """Start the program and return at once."""


class DataStreamSink(OperatorSettings):
    """The end of a stream in a sink."""

    def __init__(self, transformation: Transformation) -> None:
        self.transformation = transformation

    def _operator(self, method: str) -> Transformation:
        return self.transformation


class DataStream(OperatorSettings, Subscripted[T_co]):
    """The records of one or more operators, and their partitioning."""

    def __init__(self, program: Program, inputs: tuple[StreamInput, ...]) -> None:
        self._program = program
        self._inputs = inputs

    def _operator(self, method: str) -> Transformation:
        if len(self._inputs) > 1:
            raise ConfigurationError(
                f"{method} applies to one operator, but this stream is a union of several: call it "
                "on each of them before the union"
            )
        (only,) = self._inputs
        if only.tag is not None:
            raise ConfigurationError(
                f'{method} applies to an operator, not to its side output "{only.tag}": call it on '
                f'"{only.transformation.display_name}"'
            )
        if only.partitioning is not None:
            raise ConfigurationError(
                f'{method} applies to an operator: call it on "{only.transformation.display_name}" '
                f"before the stream is partitioned by {only.partitioning.name}"
            )
        return only.transformation

    @property
    def inputs(self) -> tuple[StreamInput, ...]:
        """The inputs of an operator that reads the stream."""
        return self._inputs

    def get_type(self) -> TypeInformation:
        """Return the declared type of the records."""
        return common_type(self._inputs) or Types.PICKLED_BYTE_ARRAY()

    @overload
    def map(
        self, func: MapFunctionOf[T_co, Any], output_type: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def map(
        self, func: AwaitingMapFunctionOf[T_co, R], output_type: None = None
    ) -> DataStream[R]: ...

    @overload
    def map(self, func: MapFunctionOf[T_co, R], output_type: None = None) -> DataStream[R]: ...

    def map(self, func: Any, output_type: TypeInformation[Any] | None = None) -> DataStream[Any]:
        """Replace each record by the function's result.

        On a keyed stream, a MapFunction may use keyed state.
        """
        factory = self._with_function(MapOperator, KeyedMapOperator, func)
        return self._one_input("Map", factory, output_type)

    @overload
    def flat_map(
        self, func: FlatMapFunctionOf[T_co, Any], output_type: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def flat_map(
        self, func: FlatMapFunctionOf[T_co, R], output_type: None = None
    ) -> DataStream[R]: ...

    def flat_map(
        self, func: Any, output_type: TypeInformation[Any] | None = None
    ) -> DataStream[Any]:
        """Replace each record by the records that the function yields or returns in an iterable.

        On a keyed stream, a FlatMapFunction may use keyed state.
        """
        factory = self._with_function(FlatMapOperator, KeyedFlatMapOperator, func)
        return self._one_input("Flat Map", factory, output_type)

    def project(self, *field_indexes: int) -> DataStream[Any]:
        """Replace each tuple by a tuple of these fields, in this order."""
        projection, kind = Projection(field_indexes), common_type(self._inputs)
        if kind is None:
            return self._one_input("Projection", partial(MapOperator, projection))
        if not isinstance(kind, TupleTypeInfo):
            raise ConfigurationError(f"only tuples can be projected, and the stream is {kind!r}")
        types = TupleTypeInfo(projection.of_type(kind.get_field_types()))
        return self._one_input("Projection", partial(MapOperator, projection), types)

    def map_batch(self, func: BatchFunctionOf[T_co, R]) -> DataStream[R]:
        """Replace each batch by the records that the function yields, or returns in an iterable.

        The function takes the list of the records of one network buffer, or of the records that a
        source or an operator of the same task emitted at once. It must not change the list.
        """
        return self._one_input("Map Batch", partial(MapBatchOperator, func))

    def filter(self, func: FilterFunctionOf[T_co]) -> DataStream[T_co]:
        """Keep the records for which the function returns true.

        On a keyed stream, a FilterFunction may use keyed state.
        """
        factory = self._with_function(FilterOperator, KeyedFilterOperator, func)
        return self._unchanged("Filter", factory)

    @overload
    def process(
        self, func: ProcessFunctionOf[T_co, Any], output_type: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def process(
        self, func: ProcessFunctionOf[T_co, R], output_type: None = None
    ) -> DataStream[R]: ...

    def process(
        self, func: Any, output_type: TypeInformation[Any] | None = None
    ) -> DataStream[Any]:
        """Process records as in ``flat_map``, with a ``ProcessContext`` as second argument.

        The function may yield ``tag, value`` for a side output.
        """
        if isinstance(func, KeyedProcessFunction):
            raise ConfigurationError(
                f"{type(func).__name__} is a KeyedProcessFunction, but the stream has no key: call "
                "key_by first"
            )
        factory = partial(ProcessOperator, func)
        return self._one_input("Process", factory, output_type, side_outputs=True)

    def assign_timestamps_and_watermarks(
        self, watermark_strategy: WatermarkStrategy[T_co]
    ) -> DataStream[T_co]:
        """Assign timestamps to the records, and emit watermarks.

        Functions see the same values as before; process functions read ``ctx.timestamp()``.
        """
        factory = partial(AssignTimestampsOperator, watermark_strategy)
        stream = self._unchanged("Timestamps/Watermarks", factory)
        operator = stream._operator("assign_timestamps_and_watermarks")
        operator.assigns_timestamps = True
        # Without an assigner, the records must have timestamps already.
        operator.needs_timestamps = watermark_strategy.timestamp_assigner is None
        return stream

    def get_side_output(self, output_tag: OutputTag[R]) -> DataStream[R]:
        """Return the stream of a side output of the operator.

        It has the values that the operator's function yields with this tag: ``yield tag, value``.
        Values for a tag without a reader are dropped.
        """
        operator = self._operator("get_side_output")
        if not operator.side_outputs:
            raise ConfigurationError(
                f'"{operator.display_name}" has no side outputs: only process functions and '
                "windows have them"
            )
        if not isinstance(output_tag, OutputTag):
            raise ConfigurationError(f"get_side_output needs an OutputTag, not {output_tag!r}")
        side = StreamInput(operator, tag=output_tag.tag_id, tag_type=output_tag.type)
        return DataStream(self._program, (side,))

    def union(self, *streams: DataStream[R]) -> DataStream[T_co | R]:
        """Merge with other streams; records of different streams come in any order."""
        for stream in streams:
            if stream._program is not self._program:
                raise ConfigurationError(
                    "the streams of a union must be of one execution environment"
                )
            kinds = common_type(self._inputs), common_type(stream._inputs)
            if None not in kinds and kinds[0] != kinds[1]:
                raise ConfigurationError(
                    f"the streams of a union must have one type, not {kinds[0]!r} and {kinds[1]!r}"
                )
        inputs = (self._inputs, *(stream._inputs for stream in streams))
        return DataStream(self._program, tuple(one for some in inputs for one in some))

    def key_by(
        self, key_selector: KeySelectorOf[T_co, R], key_type: TypeInformation | None = None
    ) -> KeyedStream[T_co, R]:
        """Partition by key: all records of a key go to one subtask, which keeps the key's state.

        A key is None, a number, a string, bytes, a date, a time, a datetime, a time span, a UUID,
        an enumeration member, or a tuple, a list or a frozen dataclass of these. Any other key
        raises SerializationError. Two keys are the same if Python says that they are equal. All NaN
        values are one key, and a list is the same key as the tuple of its elements.
        """
        key = bound_key_selector(key_selector, key_type)
        inputs = self._partitioned(hash_partitioning(key))
        return KeyedStream(self._program, inputs, key)

    def key_by_columns(self, *names: str) -> DataStream[T_co]:
        """Partition Arrow record batches by the values in these columns.

        Each subtask receives, of each batch, a record batch with the rows of its keys in their
        order, or nothing if it has none. The rows of a key go where ``key_by`` sends a record with
        that key. The key of several columns is the tuple of their values. Needs
        ``flinknet[arrow]``.

        The result is not a ``KeyedStream``: a record holds rows of many keys, so functions have no
        current key and no keyed state. Group the rows with Arrow, in ``map_batch`` or ``map``. As
        after ``key_by``, the partitioning cannot be replaced.
        """
        for name in names:
            if not isinstance(name, str):
                raise ConfigurationError(
                    f"key_by_columns takes names of columns, one by one, not a "
                    f"{type(name).__name__}: {name!r}"
                )
        return DataStream(self._program, self._partitioned(column_hash_partitioning(names)))

    def forward(self) -> DataStream[T_co]:
        """Send records to the subtask of the same index; both sides need the same parallelism."""
        return DataStream(self._program, self._partitioned(FORWARD))

    def rebalance(self, *, adaptive: bool = False) -> DataStream[T_co]:
        """Send records to all subtasks round robin.

        ``adaptive`` sends each record to the least loaded of the next four subtasks instead. A slow
        subtask then does not hold back the others, at some cost per record.
        """
        partitioning = ADAPTIVE_REBALANCE if adaptive else REBALANCE
        return DataStream(self._program, self._partitioned(partitioning))

    def rescale(self, *, adaptive: bool = False) -> DataStream[T_co]:
        """Send records round robin to a local group of subtasks.

        With 2 producers and 4 consumers, each producer has 2 consumers of its own. ``adaptive``
        works as in ``rebalance``.
        """
        partitioning = ADAPTIVE_RESCALE if adaptive else RESCALE
        return DataStream(self._program, self._partitioned(partitioning))

    def shuffle(self) -> DataStream[T_co]:
        """Send records to subtasks chosen at random."""
        return DataStream(self._program, self._partitioned(SHUFFLE))

    @overload
    def broadcast(self) -> DataStream[T_co]: ...

    @overload
    def broadcast(
        self, descriptor: MapStateDescriptor, /, *descriptors: MapStateDescriptor
    ) -> BroadcastStream[T_co]: ...

    def broadcast(
        self, *descriptors: MapStateDescriptor
    ) -> DataStream[T_co] | BroadcastStream[T_co]:
        """Send every record to every subtask.

        With descriptors, the result can be connected with another stream. The connecting function
        keeps broadcast state under these descriptors.
        """
        stream = DataStream(self._program, self._partitioned(BROADCAST))
        return BroadcastStream(stream, descriptors) if descriptors else stream

    @overload
    def connect(self, ds: DataStream[R]) -> ConnectedStreams[T_co, R]: ...

    @overload
    def connect(self, ds: BroadcastStream[R]) -> BroadcastConnectedStream[T_co, R]: ...

    def connect(
        self, ds: DataStream[R] | BroadcastStream[R]
    ) -> ConnectedStreams[T_co, R] | BroadcastConnectedStream[T_co, R]:
        """Process two streams with one operator that has a method for each stream.

        A stream without timestamps holds back only the end of event time. A timer that fires at the
        end of event time has therefore seen all of the stream's records.
        """
        other = ds.stream if isinstance(ds, BroadcastStream) else ds
        if other._program is not self._program:
            raise ConfigurationError("connected streams must be of one execution environment")
        inputs = (*self._inputs, *other._inputs)

        def add(
            name: str,
            factory: OperatorFactory,
            output_type: TypeInformation | None,
            *,
            side_outputs: bool,
        ) -> DataStream[Any]:
            operator = self._program.add_operator(OperatorKind.ONE_INPUT, name, factory, inputs)
            operator.first_inputs = len(self._inputs)
            operator.side_outputs = side_outputs
            converter(output_type)
            operator.output_type = output_type
            return DataStream(self._program, (StreamInput(operator),))

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(add, self._key_or_none(), ds.descriptors)

        def key_by(
            first: Any, second: Any, key_type: TypeInformation | None
        ) -> ConnectedStreams[T_co, R]:
            return self.key_by(first, key_type).connect(other.key_by(second, key_type))

        return ConnectedStreams(add, (self._key_or_none(), other._key_or_none()), key_by)

    def _key_or_none(self) -> Callable[[Any], Any] | None:
        return None

    def global_(self) -> DataStream[T_co]:
        """Send all records to the first subtask."""
        return DataStream(self._program, self._partitioned(GLOBAL))

    def partition_custom(
        self,
        partitioner: PartitionerOf[R],
        key_selector: KeySelectorOf[T_co, R],
    ) -> DataStream[T_co]:
        """Send each record to the subtask ``partitioner(key, number_of_subtasks)``."""
        function = bound_function(partitioner, "partition")
        custom = custom_partitioning(function, bound_key_selector(key_selector))
        return DataStream(self._program, self._partitioned(custom))

    def window_all(self, window_assigner: WindowAssigner[Any, R]) -> WindowedStream[T_co, None, R]:
        """Divide the whole stream into windows, in one subtask."""

        def add(name: str, factory: OperatorFactory, **settings: Any) -> DataStream[Any]:
            return self._windows(name, factory, **settings).set_parallelism(1)

        return WindowedStream(add, window_assigner, None)

    def _windows(
        self,
        name: str,
        factory: OperatorFactory,
        *,
        output_type: TypeInformation | None,
        keeps_type: bool,
        needs_timestamps: bool,
    ) -> DataStream[Any]:
        kind = common_type(self._inputs) if output_type is None and keeps_type else output_type
        stream = self._one_input(name, factory, kind, side_outputs=True)
        stream._operator("window").needs_timestamps = needs_timestamps
        return stream

    def sink_to(self, sink: Sink[T_co] | SinkFunctionOf[T_co]) -> DataStreamSink:
        """End the stream in a sink: a ``Sink`` for batches, or a function of one record."""
        if isinstance(sink, Sink):
            name = type(sink).__name__.removesuffix("Sink")
            transformation = self._add(OperatorKind.SINK, name, partial(SinkOperator, sink))
            transformation.collects = isinstance(sink, CollectSink)
            # Two sinks of one job must not write to the same place.
            if isinstance(sink, TwoPhaseSink):
                transformation.exclusive_output = sink.exclusive_output()
        else:
            factory = partial(CallableSinkOperator, sink)
            transformation = self._add(OperatorKind.SINK, "Function", factory)
        return DataStreamSink(transformation)

    def add_sink(self, sink_func: Sink[T_co] | SinkFunctionOf[T_co]) -> DataStreamSink:
        """End the stream in a sink, by PyFlink's name for function sinks; same as ``sink_to``."""
        return self.sink_to(sink_func)

    def print(self, sink_identifier: str = "") -> DataStreamSink:
        """Print each record on the standard output of the worker that runs the sink."""
        return self.sink_to(PrintSink(sink_identifier))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CollectedRecords[T_co]: ...

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, *, limit: int
    ) -> list[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T_co]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CollectedRecords[T_co] | list[T_co]:
        """Execute the job and return an iterator over the records of this stream, while it runs.

        Records keep the order of their subtask, and have no order across subtasks. With
        checkpoints, records arrive when their checkpoint is complete, so that none arrives twice
        after a failure.

        The iterator is a context manager; leaving it cancels a running job. With ``limit``, the
        first records are returned as a list instead, and the job is cancelled once it has produced
        them. Raises the JobError that the job ends with.
        """
        if limit is not None and limit < 0:
            raise ConfigurationError(f"limit is {limit}: choose 0 or more records, or None")
        records: CollectedRecords[T_co] = CollectedRecords()
        try:
            sink = self.sink_to(records.sink).name("execute_and_collect")
            if len(self._inputs) == 1:
                (upstream,) = self._inputs
                operator = sink.transformation
                # The same parallelism keeps the order of each subtask's records.
                operator.parallelism = upstream.transformation.parallelism
                operator.max_parallelism = upstream.transformation.max_parallelism
            records.follow(self._program.execute_async(job_execution_name or ""))
        except BaseException:
            records.close()
            raise
        if limit is None:
            return records
        with records:
            return list(islice(records, limit))

    def transform(
        self,
        operator_name: str,
        factory: OperatorFactory,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Process the records with an operator that ``factory`` makes for each subtask."""
        return self._one_input(operator_name, factory, output_type)

    def get_execution_environment(self) -> Program:
        """Return the execution environment of the stream."""
        return self._program

    def _with_function(
        self, operator: Callable[[Any], Operator], keyed: _KeyedOperator, func: Any
    ) -> OperatorFactory:
        """Return a factory of the operator with this function, for a stream without keys."""
        return partial(operator, func)

    def _unchanged(self, name: str, factory: OperatorFactory) -> DataStream[T_co]:
        """Add an operator that emits only records that it received."""
        stream = self._one_input(name, factory, common_type(self._inputs))
        stream._operator(name).converts = False
        return stream

    def _one_input(
        self,
        name: str,
        factory: OperatorFactory,
        output_type: TypeInformation | None = None,
        *,
        side_outputs: bool = False,
    ) -> DataStream[Any]:
        converter(output_type)
        transformation = self._add(OperatorKind.ONE_INPUT, name, factory)
        transformation.output_type = output_type
        transformation.side_outputs = side_outputs
        return DataStream(self._program, (StreamInput(transformation),))

    def _add(self, kind: OperatorKind, name: str, factory: OperatorFactory) -> Transformation:
        return self._program.add_operator(kind, name, factory, self._inputs)

    def _partitioned(self, partitioning: Partitioning) -> tuple[StreamInput, ...]:
        for one in self._inputs:
            if one.partitioning is not None:
                raise ConfigurationError(
                    f'the stream of "{one.transformation.display_name}" is partitioned by '
                    f"{one.partitioning.name} already, and {partitioning.name} would undo that: "
                    "remove one of them, or put an operator between them"
                )
        return tuple(replace(one, partitioning=partitioning) for one in self._inputs)


class KeyedStream(DataStream[T_co], Subscripted[T_co, K]):
    """A stream partitioned by key: records with equal keys reach one subtask.

    The partitioning by key cannot be replaced. Operators return plain streams.
    """

    def __init__(
        self,
        program: Program,
        inputs: tuple[StreamInput, ...],
        key: Callable[[Any], Any],
    ) -> None:
        super().__init__(program, inputs)
        self._key = key

    def _key_or_none(self) -> Callable[[Any], Any] | None:
        return self._key

    def _with_function(
        self, operator: Callable[[Any], Operator], keyed: _KeyedOperator, func: Any
    ) -> OperatorFactory:
        # A plain function has no context, and therefore no keyed state.
        if not isinstance(func, Function):
            return partial(operator, func)
        return partial(keyed, func, self._key)

    def reduce(
        self, func: ReduceFunctionOf[T_co], *, emit: EmitMode | None = None
    ) -> DataStream[T_co]:
        """Reduce the records of each key pairwise to one record.

        ``emit="every_record"`` emits the result so far after each record, as in streaming.
        ``"end_of_input"`` emits one record per key when the input has ended, as in a batch job. The
        default follows from the environment's runtime mode.
        """
        factory = partial(ReduceOperator, func, self._key, emit)
        return self._one_input("Reduce", factory, common_type(self._inputs))

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """Sum a field over the records of each key.

        The field is a position, or the name of a row's field. The other fields come from the key's
        first record.
        """
        return self.reduce(Sum(position_to_sum)).name("Sum")

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """Compute the minimum of a field over the records of each key, as ``sum`` does."""
        return self.reduce(Minimum(position_to_min)).name("Min")

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """Compute the maximum of a field over the records of each key, as ``sum`` does."""
        return self.reduce(Maximum(position_to_max)).name("Max")

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """Keep each key's record with the least value of a field; the first of equal ones."""
        return self.reduce(ExtremeBy(position_to_min_by, greatest=False)).name("Min By")

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """Keep each key's record with the greatest value of a field; the first of equal ones."""
        return self.reduce(ExtremeBy(position_to_max_by, greatest=True)).name("Max By")

    def aggregate(
        self, func: Aggregates[T_co, Any, R], *, emit: EmitMode | None = None
    ) -> DataStream[tuple[K, R]]:
        """Fold the records of each key into an accumulator; results are tuples (key, result).

        ``emit`` has the same meaning as in ``reduce``.
        """
        return self._one_input("Aggregate", partial(AggregateOperator, func, self._key, emit))

    @overload  # type: ignore[override]  # the timers of a function may emit other records
    def process(
        self, func: ProcessFunctionOf[T_co, Any], output_type: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def process(
        self,
        func: OnlyTimersEmit[T_co, R] | TimersEmitNothing[T_co, R],
        output_type: None = None,
    ) -> DataStream[R]: ...

    @overload
    def process(
        self, func: ProcessesWithTimers[T_co, S, U], output_type: None = None
    ) -> DataStream[S | U]: ...

    @overload
    def process(
        self, func: ProcessFunctionOf[T_co, R], output_type: None = None
    ) -> DataStream[R]: ...

    def process(
        self, func: Any, output_type: TypeInformation[Any] | None = None
    ) -> DataStream[Any]:
        """Process records as in ``flat_map``, with a ``ProcessContext`` with the record's key."""
        factory = partial(KeyedProcessOperator, func, self._key)
        return self._one_input("KeyedProcess", factory, output_type, side_outputs=True)

    def window(self, window_assigner: WindowAssigner[Any, R]) -> WindowedStream[T_co, K, R]:
        """Divide the records of each key into windows."""
        return WindowedStream(self._windows, window_assigner, self._key)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T_co, K, CountWindow]:
        """Divide the records of each key into windows of ``size`` records.

        With ``slide``, a window of the last ``size`` records fires after every ``slide`` records.
        Functions receive a CountWindow with the window's number within its key.
        """
        windows = self.window(CountWindows())
        if slide:
            # The evictor leaves the last ``size`` records in the window of a key.
            return windows.evictor(CountEvictor(size)).trigger(CountTrigger(slide))
        return windows.trigger(PurgingTrigger(CountTrigger(size)))

    def process_batch(self, func: KeyedBatchFunctionOf[K, T_co, R]) -> DataStream[R]:
        """Process each key's records of a batch together, with a function of key and list.

        The function is called once for every key of the batch, in order of their first records. A
        batch is the contents of one network buffer.
        """
        return self._one_input("Process Batch", partial(ProcessBatchOperator, func, self._key))


class BroadcastStream(Subscripted[T_co]):
    """A stream with all records sent to every subtask, to be connected with another stream."""

    def __init__(
        self, stream: DataStream[T_co], descriptors: tuple[MapStateDescriptor, ...]
    ) -> None:
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise ConfigurationError(
                    f"broadcast needs MapStateDescriptors, not {type(descriptor).__name__}"
                )
        self.stream = stream
        self.descriptors = descriptors


def bound_key_selector(
    key_selector: KeySelectorOf[Any, Any], key_type: TypeInformation | None = None
) -> Callable[[Any], Any]:
    """Return a function from a record to its key, converted to the key's type.

    Raises ConfigurationError if the selector is not a plain function.
    """
    key = bound_function(key_selector, "get_key")
    if is_awaiting(key):
        raise ConfigurationError("a key selector runs for every record: it cannot be a coroutine")
    convert = converter(key_type)
    if convert is None:
        return key
    return ConvertedKey(key, convert)

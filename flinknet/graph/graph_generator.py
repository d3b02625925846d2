"""Generation of a job graph from a program (Flink's StreamingJobGraphGenerator).

An operator joins the task of its predecessor if all of these hold: it has no other input, the
records are forwarded, parallelism, max parallelism and slot sharing group are equal, and chaining
was not disabled for either. Several operators may follow one in a chain, so chains are trees.

The generator also decides which streams have timestamps: the streams behind an operator that
assigns them. On the edges of these streams a record is a tuple ``(timestamp, value)``, and a
partitioner is replaced by one that looks at the value. Other streams have no event time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from flinknet.config import BufferTimeout
from flinknet.errors import ConfigurationError
from flinknet.graph.graph import ChainedOperator, JobEdge, JobGraph, JobVertex
from flinknet.graph.transformation import (
    FORWARD,
    REBALANCE,
    ChainingStrategy,
    OperatorKind,
    Partitioning,
    StreamInput,
    Transformation,
    common_type,
)
from flinknet.operators.keyed_operators import AggregateOperator, ReduceOperator
from flinknet.operators.operators import OperatorFactory
from flinknet.operators.typed_records import InputType
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.records.key_groups import default_max_parallelism
from flinknet.texts import printable

__all__ = ["GraphDefaults", "RuntimeMode", "all_transformations", "generate_job_graph", "is_batch"]

DEFAULT_SLOT_SHARING_GROUP = "default"

RuntimeMode = Literal["streaming", "batch", "automatic"]
"""When folds emit: after every record, or once per key at the end of their input. Automatic means
the latter if every source ends."""


@dataclass(slots=True)
class GraphDefaults:
    """Defaults for operators without their own settings."""

    parallelism: int = 1
    max_parallelism: int | None = None
    buffer_timeout_ms: BufferTimeout | None = None
    chaining: bool = True
    types: tuple[type, ...] = ()
    auto_watermark_interval_ms: int = 200
    latency_interval_ms: int | None = None
    object_reuse: bool = False
    task_threads: bool = True
    mode: RuntimeMode = "streaming"


def generate_job_graph(
    name: str, transformations: Iterable[Transformation], defaults: GraphDefaults
) -> JobGraph:
    """Build the graph of the transformations and of all their inputs.

    Raises ConfigurationError, which names the operator, for an invalid program.
    """
    program = all_transformations(transformations)
    _require_operators(name, program)
    _require_printable_names(name, program)
    _require_unique_names(name, program)
    return _Generator(name, program, defaults).generate()


def all_transformations(transformations: Iterable[Transformation]) -> list[Transformation]:
    """Return every transformation of the program once, inputs first.

    As in Flink, a source without readers is left out, but another operator without readers is kept:
    its results are dropped, but the purpose of its function may be a side effect.
    """
    ordered: dict[Transformation, None] = {}

    def visit(transformation: Transformation) -> None:
        if transformation not in ordered:
            for one in transformation.inputs:
                visit(one.transformation)
            ordered[transformation] = None

    for transformation in transformations:
        if transformation.kind is not OperatorKind.SOURCE:
            visit(transformation)
    return list(ordered)


def _require_operators(name: str, program: list[Transformation]) -> None:
    if not program:
        raise ConfigurationError(
            f'job "{name}" has no operators: add operators and a sink to its streams'
        )


def _require_printable_names(name: str, program: list[Transformation]) -> None:
    """Refuse unprintable names, because names are sent to every process and shown on terminals."""
    for what, given in (("job", name), *(("operator", one.display_name) for one in program)):
        if given != printable(given):
            raise ConfigurationError(
                f'the name of {what} "{printable(given)}" has control characters or lone '
                "surrogates: choose another"
            )


def _require_unique_names(name: str, program: list[Transformation]) -> None:
    """Refuse duplicate names.

    State is found by uid, and collected records by the name of their sink. Two sinks must not take
    each other's output for their own.
    """
    uids = Counter(one.uid for one in program if one.uid is not None)
    collects = Counter(one.name for one in program if one.collects)
    outputs = Counter(one.exclusive_output for one in program if one.exclusive_output is not None)
    counts = (("uid", uids), ("collect sink name", collects), ("output", outputs))
    for what, counted in counts:
        for value, times in counted.items():
            if times > 1:
                raise ConfigurationError(
                    f'job "{name}" has {times} operators with the {what} "{value}": make it unique'
                )


def is_batch(transformations: Iterable[Transformation], defaults: GraphDefaults) -> bool:
    """Return whether folds emit at the end of the input.

    Raises ConfigurationError in batch mode if a source does not end.
    """
    if defaults.mode == "streaming":
        return False
    program = all_transformations(transformations)
    endless = [one.display_name for one in program if not one.is_bounded]
    if endless and defaults.mode == "batch":
        raise ConfigurationError(
            f'the job runs in mode BATCH, and "{endless[0]}" does not end: run it in mode STREAMING'
        )
    return not endless


def _at_end_of_input(factory: OperatorFactory) -> OperatorFactory:
    """Make a fold emit at the end of its input, unless its own setting says otherwise."""
    if isinstance(factory, partial) and factory.func in (ReduceOperator, AggregateOperator):
        function, key_of, emit = factory.args
        return partial(factory.func, function, key_of, emit or "end_of_input")
    return factory


@dataclass(frozen=True, slots=True)
class _Placed:
    """A transformation with all open settings decided."""

    transformation: Transformation
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    factory: OperatorFactory

    @property
    def name(self) -> str:
        return self.transformation.display_name


@dataclass(slots=True)
class _Chain:
    """A vertex under construction: its operators, and the index of the input of each."""

    operators: list[_Placed]
    inputs: list[int | None]

    def name(self, index: int = 0) -> str:
        """Return Flink's name of the subtree of an operator: ``"a -> b"``, ``"a -> (b, c)"``."""
        behind = [self.name(i) for i, feeder in enumerate(self.inputs) if feeder == index]
        own = self.operators[index].name
        if not behind:
            return own
        return f"{own} -> {behind[0]}" if len(behind) == 1 else f"{own} -> ({', '.join(behind)})"


class _Generator:
    """Builds one graph; ``_place`` maps visited transformations to (chain, index in it)."""

    def __init__(self, name: str, program: list[Transformation], defaults: GraphDefaults) -> None:
        self._name = name
        self._program = program
        self._defaults = defaults
        self._placed: dict[Transformation, _Placed] = {}
        self._chains: list[_Chain] = []
        self._place: dict[Transformation, tuple[int, int]] = {}
        self._stamped: dict[Transformation, bool] = {}
        self._is_batch = is_batch(program, defaults)

    def generate(self) -> JobGraph:
        for transformation in self._program:
            placed = self._placed[transformation] = self._decide(transformation)
            self._add_to_chain(placed)
        edges = [
            self._edge(one, number, chain.operators[0])
            for chain in self._chains
            for number, one in enumerate(chain.operators[0].transformation.inputs)
        ]
        vertices = [self._vertex(number, chain) for number, chain in enumerate(self._chains)]
        return JobGraph(
            self._name,
            tuple(vertices),
            tuple(edges),
            self._defaults.types,
            # A batch job uses only the watermark at the end of its input (Flink).
            0 if self._is_batch else self._defaults.auto_watermark_interval_ms,
            self._defaults.latency_interval_ms,
        )

    def _decide(self, transformation: Transformation) -> _Placed:
        parallelism = transformation.parallelism or self._defaults.parallelism
        max_parallelism = (
            transformation.max_parallelism
            or self._defaults.max_parallelism
            or default_max_parallelism(parallelism)
        )
        if parallelism > max_parallelism:
            raise ConfigurationError(
                f'operator "{transformation.display_name}" has parallelism {parallelism}, more '
                f"than its max parallelism {max_parallelism}: lower the former or raise the latter"
            )
        groups = {
            self._placed[one.transformation].slot_sharing_group for one in transformation.inputs
        }
        # As in Flink, an operator inherits the group of its inputs if they agree.
        inherited = groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP
        group = transformation.slot_sharing_group or inherited
        self._find_timestamps(transformation)
        factory = transformation.factory
        if self._is_batch:
            factory = _at_end_of_input(factory)
        return _Placed(transformation, parallelism, max_parallelism, group, factory)

    def _find_timestamps(self, transformation: Transformation) -> None:
        """Determine whether the operator's results have timestamps."""
        stamped = [
            self._same_for_all(transformation, read) for read in transformation.logical_inputs
        ]
        self._stamped[transformation] = transformation.assigns_timestamps or any(stamped)
        if transformation.needs_timestamps and not all(stamped):
            raise ConfigurationError(
                f'operator "{transformation.display_name}" needs records with timestamps: call '
                "assign_timestamps_and_watermarks, with a timestamp assigner, before it"
            )

    def _same_for_all(
        self, transformation: Transformation, inputs: tuple[StreamInput, ...]
    ) -> bool:
        """Return whether the streams of a union have timestamps; they must agree."""
        with_, without = (
            [one.transformation for one in inputs if self._stamped[one.transformation] is stamped]
            for stamped in (True, False)
        )
        if with_ and without:
            raise ConfigurationError(
                f'operator "{transformation.display_name}" reads a union of '
                f'"{with_[0].display_name}", whose records have timestamps, and '
                f'"{without[0].display_name}", whose records have none: call '
                "assign_timestamps_and_watermarks on each of them, or on the union"
            )
        return bool(with_)

    def _add_to_chain(self, placed: _Placed) -> None:
        if self._joins_its_input(placed):
            (only,) = placed.transformation.inputs
            number, feeder = self._place[only.transformation]
            chain = self._chains[number]
            chain.operators.append(placed)
            chain.inputs.append(feeder)
        else:
            number, chain = len(self._chains), _Chain([placed], [None])
            self._chains.append(chain)
        self._place[placed.transformation] = (number, len(chain.operators) - 1)

    def _joins_its_input(self, placed: _Placed) -> bool:
        if not self._defaults.chaining or len(placed.transformation.inputs) != 1:
            return False
        (only,) = placed.transformation.inputs
        before = self._placed[only.transformation]
        return (
            self._partitioning(only, placed) is FORWARD
            and before.max_parallelism == placed.max_parallelism
            and before.slot_sharing_group == placed.slot_sharing_group
            and before.transformation.chaining is not ChainingStrategy.NEVER
            and placed.transformation.chaining is ChainingStrategy.ALWAYS
        )

    def _partitioning(self, read: StreamInput, target: _Placed) -> Partitioning:
        source = self._placed[read.transformation]
        same = source.parallelism == target.parallelism
        if read.partitioning is None:
            return FORWARD if same else REBALANCE
        if read.partitioning is FORWARD and not same:
            raise ConfigurationError(
                f'"{source.name}" (parallelism {source.parallelism}) cannot forward to '
                f'"{target.name}" (parallelism {target.parallelism}): set the same parallelism, or '
                "use rescale() or rebalance()"
            )
        return read.partitioning

    def _edge(self, read: StreamInput, number: int, target: _Placed) -> JobEdge:
        partitioning = self._partitioning(read, target)
        stamped = self._stamped[read.transformation]
        # Records are tuples (timestamp, value) there, and a partitioner must look at the value.
        if stamped and partitioning.with_timestamps is not None:
            partitioning = partitioning.with_timestamps()
        first = target.transformation.first_inputs
        source, operator = self._place[read.transformation]
        make_partitioner = partitioning.factory(target.max_parallelism)
        timeout = read.transformation.buffer_timeout_ms
        return JobEdge(
            source=source,
            target=self._place[target.transformation][0],
            operator=operator,
            name=partitioning.name,
            partitioner=make_partitioner,
            pointwise=make_partitioner().is_pointwise,
            buffer_timeout_ms=self._defaults.buffer_timeout_ms if timeout is None else timeout,
            exchange_mode=self._exchange_mode(read, target),
            tag=read.tag,
            stamped=stamped,
            input=int(first is not None and number >= first),
        )

    def _exchange_mode(self, read: StreamInput, target: _Placed) -> ExchangeMode:
        """Return the mode of an edge; it must be pipelined, because all tasks run at the same time.

        Support for jobs with several pipelined regions would begin here.
        """
        if not read.exchange_mode.is_pipelined:
            raise ConfigurationError(
                f'the exchange from "{self._placed[read.transformation].name}" to "{target.name}" '
                f"is {read.exchange_mode}, which is not supported yet: use "
                f"{ExchangeMode.PIPELINED_BOUNDED}"
            )
        return read.exchange_mode

    def _vertex(self, number: int, chain: _Chain) -> JobVertex:
        head = chain.operators[0]
        operators = [
            ChainedOperator(
                name=placed.transformation.name,
                # Without a uid, the position in the graph identifies the operator's state.
                uid=placed.transformation.uid or f"{number}.{index}",
                factory=placed.factory,
                input=feeder,
                tag=None if feeder is None else placed.transformation.inputs[0].tag,
                stamped=self._stamped[placed.transformation],
                splits_outputs=placed.transformation.side_outputs,
                output_type=placed.transformation.output_type,
                converts=placed.transformation.converts,
                input_types=self._input_types(placed.transformation) if feeder is None else (),
            )
            for index, (placed, feeder) in enumerate(
                zip(chain.operators, chain.inputs, strict=True)
            )
        ]
        return JobVertex(
            id=number,
            name=chain.name(),
            parallelism=head.parallelism,
            max_parallelism=head.max_parallelism,
            slot_sharing_group=head.slot_sharing_group,
            operators=tuple(operators),
            object_reuse=self._defaults.object_reuse,
            task_threads=self._defaults.task_threads,
        )

    def _input_types(self, transformation: Transformation) -> tuple[InputType, ...]:
        """Return the form in which records of each input arrive from the network."""
        return tuple(
            InputType(common_type(read), self._stamped[read[0].transformation])
            for read in transformation.logical_inputs
        )

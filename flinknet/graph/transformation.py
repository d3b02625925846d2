"""Transformations: the operators that a program's calls on streams define, before chaining.

A transformation is one operator of the program. Its inputs are streams of other transformations,
each with the partitioning that the program chose. Union and partitioning are properties of inputs,
not separate operators (Flink's virtual nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from flinknet.config import BufferTimeout
from flinknet.errors import ConfigurationError
from flinknet.functions.functions import find_attributes_fast, key_of_value
from flinknet.functions.type_information import TypeInformation
from flinknet.graph.graph import PartitionerFactory
from flinknet.machine import Random
from flinknet.operators.operators import OperatorFactory
from flinknet.partition.exchange_mode import ExchangeMode
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

__all__ = [
    "ADAPTIVE_REBALANCE",
    "ADAPTIVE_RESCALE",
    "BROADCAST",
    "FORWARD",
    "GLOBAL",
    "REBALANCE",
    "RESCALE",
    "SHUFFLE",
    "ChainingStrategy",
    "OperatorKind",
    "Partitioning",
    "StreamInput",
    "Transformation",
    "column_hash_partitioning",
    "common_type",
    "custom_partitioning",
    "hash_partitioning",
]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A way to assign records to subtasks; ``factory`` takes the max parallelism."""

    name: str
    factory: Callable[[int], PartitionerFactory]
    with_timestamps: Callable[[], Partitioning] | None = None
    """Creates the equivalent for tuples ``(timestamp, value)``; None if records do not matter."""


def _shuffle_partitioner() -> ShufflePartitioner:
    return ShufflePartitioner(Random().randrange)


def _keyless(name: str, make: PartitionerFactory) -> Partitioning:
    return Partitioning(name, lambda max_parallelism: make)


FORWARD = _keyless("FORWARD", ForwardPartitioner)
REBALANCE = _keyless("REBALANCE", RebalancePartitioner)
RESCALE = _keyless("RESCALE", RescalePartitioner)
ADAPTIVE_REBALANCE = _keyless("ADAPTIVE REBALANCE", AdaptiveRebalancePartitioner)
ADAPTIVE_RESCALE = _keyless("ADAPTIVE RESCALE", AdaptiveRescalePartitioner)
SHUFFLE = _keyless("SHUFFLE", _shuffle_partitioner)
BROADCAST = _keyless("BROADCAST", BroadcastPartitioner)
GLOBAL = _keyless("GLOBAL", GlobalPartitioner)


def hash_partitioning(key: Callable[[Any], Any]) -> Partitioning:
    """Return a partitioning by the key group of the key."""
    return Partitioning(
        "HASH",
        lambda groups: partial(_hash_partitioner, key, groups),
        lambda: Partitioning("HASH", lambda groups: partial(_hash_values, key, groups)),
    )


def _hash_partitioner(key: Callable[[Any], Any], groups: int) -> Partitioner:
    find_attributes_fast(key)
    return HashPartitioner(key, groups)


def _hash_values(key: Callable[[Any], Any], groups: int) -> Partitioner:
    return HashPartitioner(key_of_value(key), groups)


def column_hash_partitioning(columns: tuple[str, ...]) -> Partitioning:
    """Return a partitioning by the key group of columns of Arrow record batches.

    Raises ConfigurationError if there is no column, or no pyarrow.
    """
    _column_hash_partitioner(columns, 1)  # An error must come here, not later in a worker.
    return Partitioning(
        "COLUMN HASH",
        lambda groups: partial(_column_hash_partitioner, columns, groups),
        _refuse_timestamps,
    )


def _refuse_timestamps() -> Partitioning:
    raise ConfigurationError(
        "key_by_columns cuts Arrow record batches, and the records here have timestamps: call "
        "assign_timestamps_and_watermarks behind it"
    )


def _column_hash_partitioner(columns: tuple[str, ...], groups: int) -> Partitioner:
    try:
        from flinknet.records.columns.partitioner import ColumnHashPartitioner
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"a keyed exchange of columns needs {error.name}: install flinknet[arrow]"
        ) from error
    return ColumnHashPartitioner(*columns, max_parallelism=groups)


def custom_partitioning(
    function: Callable[[Any, int], int], key: Callable[[Any], Any]
) -> Partitioning:
    """Return a partitioning by a user's function of the key and the number of subtasks."""
    return Partitioning(
        "CUSTOM",
        lambda max_parallelism: partial(CustomPartitioner, function, key),
        lambda: _keyless("CUSTOM", partial(_custom_values, function, key)),
    )


def _custom_values(function: Callable[[Any, int], int], key: Callable[[Any], Any]) -> Partitioner:
    return CustomPartitioner(function, key_of_value(key))


class ChainingStrategy(Enum):
    """The neighbours with which an operator may share a task (Flink's ChainingStrategy)."""

    ALWAYS = "with the previous operator and with later ones"
    HEAD = "with later operators only"
    NEVER = "with none"


class OperatorKind(Enum):
    """The role of an operator in its chain; the value is the prefix of its name."""

    SOURCE = "Source: "
    ONE_INPUT = ""
    SINK = "Sink: "


@dataclass(eq=False, slots=True)
class Transformation:
    """One operator of the program; methods of its stream change it until the graph is built."""

    kind: OperatorKind
    name: str
    factory: OperatorFactory
    inputs: tuple[StreamInput, ...]
    parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    slot_sharing_group: str | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    buffer_timeout_ms: BufferTimeout | None = None
    collects: bool = False
    """Whether records are returned to the program under the operator's name, which is unique."""
    exclusive_output: str | None = None
    """Name of an output that no other sink of the job may write to."""
    first_inputs: int | None = None
    """Number of inputs that form the first of two; None for an operator with one input."""
    assigns_timestamps: bool = False
    """Whether the results have timestamps, regardless of the input."""
    needs_timestamps: bool = False
    """Whether the input must have timestamps."""
    side_outputs: bool = False
    """Whether the function may yield ``tag, value``."""
    output_type: TypeInformation | None = None
    """Declared type of the records; None without a declaration."""
    converts: bool = True
    """Whether records are converted to that type; otherwise they keep the type of the input."""
    is_bounded: bool = True
    """Whether a source ends; True for any other operator."""
    source: Transformation | None = None
    """The source to whose records this operator assigns timestamps, as part of ``from_source``.

    Flink does so inside the source. Both have one parallelism: a rebalance between them would
    change the order of the records of a key.
    """
    description: str | None = None
    """Description of the operator, longer than its name."""

    @property
    def display_name(self) -> str:
        """Name in vertices and errors, such as ``"Source: flights"``."""
        return self.kind.value + self.name

    @property
    def logical_inputs(self) -> tuple[tuple[StreamInput, ...], ...]:
        """The inputs, with those grouped that the operator reads as one stream."""
        if not self.inputs:
            return ()
        if self.first_inputs is None:
            return (self.inputs,)
        return (self.inputs[: self.first_inputs], self.inputs[self.first_inputs :])


@dataclass(frozen=True, slots=True)
class StreamInput:
    """A stream that a transformation reads; without a partitioning, forward or rebalance."""

    transformation: Transformation
    partitioning: Partitioning | None = None
    exchange_mode: ExchangeMode = ExchangeMode.PIPELINED_BOUNDED
    tag: str | None = None
    """The side output to read; None for the main output."""
    tag_type: TypeInformation | None = None
    """Declared type of that side output's records."""

    @property
    def type(self) -> TypeInformation | None:
        """Declared type of the records."""
        return self.transformation.output_type if self.tag is None else self.tag_type


def common_type(inputs: Iterable[StreamInput]) -> TypeInformation | None:
    """Return the type of all inputs, or None if they differ or have none."""
    first, *others = [one.type for one in inputs]
    return first if all(one == first for one in others) else None

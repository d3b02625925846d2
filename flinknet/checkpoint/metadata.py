"""The metadata of a checkpoint, its last file to be written.

A checkpoint is self-describing: its metadata and the files beside it suffice to restore it. The
state of a subtask consists of *parts*, one for each kind of state. A part is a sequence of
*sections*, each with a label, a length and a checksum. Labels are the key groups of keyed state,
the names of operator state, and the channels of data in flight. So a subtask of a job with another
parallelism reads and checks only its own sections. A small part is stored in the metadata itself.
``FORMAT.md`` defines the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from flinknet.checkpoint.envelope import open_envelope, put_in_envelope
from flinknet.errors import CheckpointCorruptedError
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = [
    "METADATA",
    "PART_NAME",
    "CheckpointDirectory",
    "CheckpointMetadata",
    "Exchange",
    "Label",
    "OperatorState",
    "Section",
    "StateKind",
    "StatePart",
    "SubtaskState",
    "decode_metadata",
    "encode_metadata",
]

METADATA = "metadata"
"""Name of the file in the checkpoint's directory."""

_KINDS = {kind.name.lower(): kind for kind in CheckpointKind}

PART_NAME = r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}"
"""Legal names of parts: names that stay within the directory on any file system."""

_DIRECTORY = re.compile(r"(checkpoint|savepoint)-(0|[1-9][0-9]{0,18})-attempt-(0|[1-9][0-9]{0,18})")

Label: TypeAlias = int | str | tuple[int, int]
"""Label of a section: a key group; the name of a state; a gate and its channel, or a partition and
its subpartition, as numbered in the subtask."""


class CheckpointDirectory(NamedTuple):
    """The directory of one checkpoint, below that of its job.

    Each attempt has its own directories, so that files that a replaced attempt still writes never
    mix with those of its successor.
    """

    is_savepoint: bool
    checkpoint_id: int
    attempt: int

    def __str__(self) -> str:
        kind = "savepoint" if self.is_savepoint else "checkpoint"
        return f"{kind}-{self.checkpoint_id}-attempt-{self.attempt}"

    @classmethod
    def parse(cls, name: str) -> CheckpointDirectory | None:
        """Return the directory with this name, or None if it is not a checkpoint's."""
        found = _DIRECTORY.fullmatch(name)
        return cls(found[1] == "savepoint", int(found[2]), int(found[3])) if found else None


class StateKind(StrEnum):
    """The kinds of a subtask's state; a subtask has at most one part of each."""

    KEYED = "keyed"
    OPERATOR = "operator"
    INPUT = "input"
    OUTPUT = "output"


class Section(NamedTuple):
    """A range of a part's bytes, which begins at the end of the section before."""

    label: Label
    size_bytes: int
    crc32c: int


class StatePart(NamedTuple):
    """One kind of state of one subtask."""

    sections: tuple[Section, ...]
    name: str | None = None
    """The file that holds the part, beside the metadata; None if ``inline`` holds it."""
    inline: bytes = b""

    @property
    def size_bytes(self) -> int:
        """Size of all sections in bytes."""
        return sum(section.size_bytes for section in self.sections)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels of the sections, in their order."""
        return tuple(section.label for section in self.sections)

    def offsets(self) -> Iterator[tuple[Section, int]]:
        """Yield each section with its offset."""
        start = 0
        for section in self.sections:
            yield section, start
            start += section.size_bytes


class SubtaskState(NamedTuple):
    """The state of one subtask of an operator. Kinds without a part are empty."""

    subtask_index: int
    parts: Mapping[StateKind, StatePart]
    finished: bool = False
    """Whether the subtask had processed its last record, so that it need not run again."""

    @property
    def has_own_state(self) -> bool:
        """Whether the operator has state in this subtask; data in flight does not count."""
        return not self.parts.keys().isdisjoint((StateKind.KEYED, StateKind.OPERATOR))

    @property
    def size_bytes(self) -> int:
        """Size of all parts in bytes."""
        return sum(part.size_bytes for part in self.parts.values())


class OperatorState(NamedTuple):
    """The state of one operator: the states of its subtasks, as far as they have any."""

    uid: str
    """Identity of the operator in every version of the job."""
    parallelism: int
    max_parallelism: int
    """Number of key groups, which cannot change."""
    subtasks: tuple[SubtaskState, ...] = ()

    def finished_at(self, parallelism: int) -> set[int]:
        """Return the subtasks that have finished, for a job with ``parallelism`` subtasks.

        If all had finished, all have finished at any parallelism. If some had, none has at another
        parallelism, because the new subtasks share the rest of the unfinished ones.
        """
        finished = {subtask.subtask_index for subtask in self.subtasks if subtask.finished}
        if len(finished) == self.parallelism:
            return set(range(parallelism))
        return finished if parallelism == self.parallelism else set()


class Exchange(NamedTuple):
    """An exchange of the job, with its numbers in the labels of data in flight.

    The numbers change with the job, for example with another chain or one more exchange. So a
    restore identifies an exchange by the operators at its ends.
    """

    sender: str
    """Uid of the operator that emits the records."""
    tag: str | None
    """Side output of that operator; None for its main output."""
    sender_head: str
    """Uid of the first operator in the sender's chain; its state has the data in flight."""
    partition: int
    """Number of the exchange in the sender's chain: first item of a label of kind ``output``."""
    receiver: str
    """Uid of the operator that reads the exchange, the first of its chain."""
    input: int
    """Input of the receiver: 0, or 1 for the second of two."""
    gate: int
    """Number of the exchange at the receiver: first item of a label of kind ``input``."""
    partitioner: str
    """Name of the partitioner, such as ``"HASH"``."""
    pointwise: bool
    """Whether a subtask was connected with some subtasks of the other side, not with all."""
    stamped: bool
    """Whether records are tuples ``(timestamp, value)``."""


class CheckpointMetadata(NamedTuple):
    """The description of one checkpoint."""

    job_id: str
    job: str
    """Name of the job, for people."""
    attempt: int
    """Execution of the job that created the checkpoint."""
    checkpoint_id: int
    kind: CheckpointKind
    triggered_ms: int
    """Creation time of the barriers, in milliseconds since 1970."""
    completed_ms: int
    operators: tuple[OperatorState, ...]
    written_by: str = ""
    """Version of flinknet, for people."""
    exchanges: tuple[Exchange, ...] = ()
    """The exchanges of the job; empty if no data was in flight."""

    @property
    def directory(self) -> CheckpointDirectory:
        """Directory of the checkpoint."""
        return CheckpointDirectory(self.kind.is_savepoint, self.checkpoint_id, self.attempt)

    @property
    def duration_ms(self) -> int:
        """Time from the trigger to the completion; at least 0 if a clock was set meanwhile."""
        return max(self.completed_ms - self.triggered_ms, 0)

    @property
    def size_bytes(self) -> int:
        """Size of all state in bytes, including state in the metadata."""
        return sum(
            subtask.size_bytes for operator in self.operators for subtask in operator.subtasks
        )

    def parts(self) -> Iterator[tuple[OperatorState, SubtaskState, StateKind, StatePart]]:
        """Yield every part with its operator, its subtask and its kind."""
        for operator in self.operators:
            for subtask in operator.subtasks:
                for kind, part in subtask.parts.items():
                    yield operator, subtask, kind, part

    def files(self) -> dict[str, StatePart]:
        """Return the parts that are files, by name."""
        return {part.name: part for *_, part in self.parts() if part.name is not None}


def encode_metadata(metadata: CheckpointMetadata, bytes_max: int) -> bytes:
    """Return the file. Raises CheckpointError if it exceeds ``bytes_max``."""
    content = metadata._asdict() | {
        "kind": metadata.kind.name.lower(),
        "operators": [*map(_operator_out, metadata.operators)],
        "exchanges": [exchange._asdict() for exchange in metadata.exchanges],
    }
    if not metadata.exchanges:  # The format has the key only if data was in flight.
        del content["exchanges"]
    return put_in_envelope({"what": "checkpoint", **content}, bytes_max)


def decode_metadata(file: bytes, name: str) -> CheckpointMetadata:
    """Return the metadata in a file. Raises CheckpointCorruptedError, with ``name``, if invalid."""
    content = open_envelope(file, name)
    try:
        return _metadata_in(content)
    except (KeyError, TypeError, ValueError) as cause:
        raise CheckpointCorruptedError(
            f"{name} is not the metadata of a checkpoint: {type(cause).__name__}: {cause}"
        ) from cause


def _operator_out(operator: OperatorState) -> dict[str, Any]:
    return operator._asdict() | {"subtasks": [*map(_subtask_out, operator.subtasks)]}


def _subtask_out(subtask: SubtaskState) -> dict[str, Any]:
    parts = {kind.value: _part_out(part) for kind, part in subtask.parts.items()}
    return subtask._asdict() | {"parts": parts}


def _part_out(part: StatePart) -> dict[str, Any]:
    held = {"inline": part.inline} if part.name is None else {"name": part.name}
    return {**held, "sections": part.sections}


def _metadata_in(content: dict[str, Any]) -> CheckpointMetadata:
    if content["what"] != "checkpoint":
        raise ValueError(f"its content is marked as {content['what']!r}")
    metadata = CheckpointMetadata(
        job_id=_typed(content, "job_id", str),
        job=_typed(content, "job", str),
        attempt=_count(content, "attempt"),
        checkpoint_id=_count(content, "checkpoint_id"),
        kind=_KINDS[content["kind"]],
        triggered_ms=_count(content, "triggered_ms"),
        completed_ms=_count(content, "completed_ms"),
        operators=_all(content, "operators", _operator_in),
        written_by=_typed(content, "written_by", str),
        exchanges=_exchanges_in(content) if "exchanges" in content else (),
    )
    names = [part.name for *_, part in metadata.parts() if part.name is not None]
    if len(set(names)) != len(names):
        raise ValueError("two parts have one name")
    return metadata


def _operator_in(content: dict[str, Any]) -> OperatorState:
    operator = OperatorState(
        uid=_typed(content, "uid", str),
        parallelism=_count(content, "parallelism"),
        max_parallelism=_count(content, "max_parallelism"),
        subtasks=_all(content, "subtasks", _subtask_in),
    )
    indexes = [subtask.subtask_index for subtask in operator.subtasks]
    if len(set(indexes)) != len(indexes) or max(indexes, default=-1) >= operator.parallelism:
        raise ValueError(
            f"operator {operator.uid} of {operator.parallelism} subtasks has state of subtasks "
            f"{indexes}"
        )
    return operator


def _exchanges_in(content: dict[str, Any]) -> tuple[Exchange, ...]:
    exchanges = _all(content, "exchanges", _exchange_in)
    outputs = {(exchange.sender_head, exchange.partition) for exchange in exchanges}
    inputs = {(exchange.receiver, exchange.gate) for exchange in exchanges}
    if not len(outputs) == len(inputs) == len(exchanges):
        raise ValueError("two exchanges have one number")
    return exchanges


def _exchange_in(content: dict[str, Any]) -> Exchange:
    return Exchange(
        sender=_typed(content, "sender", str),
        tag=None if content["tag"] is None else _typed(content, "tag", str),
        sender_head=_typed(content, "sender_head", str),
        partition=_count(content, "partition"),
        receiver=_typed(content, "receiver", str),
        input=_count(content, "input"),
        gate=_count(content, "gate"),
        partitioner=_typed(content, "partitioner", str),
        pointwise=_typed(content, "pointwise", bool),
        stamped=_typed(content, "stamped", bool),
    )


def _subtask_in(content: dict[str, Any]) -> SubtaskState:
    parts = _typed(content, "parts", dict)
    return SubtaskState(
        subtask_index=_count(content, "subtask_index"),
        parts={StateKind(kind): _part_in(part) for kind, part in parts.items()},
        finished=_typed(content, "finished", bool),
    )


def _part_in(content: dict[str, Any]) -> StatePart:
    sections = _all(content, "sections", _section_in)
    if "name" in content:
        name = _typed(content, "name", str)
        if re.fullmatch(PART_NAME, name) is None or name == METADATA:
            raise ValueError(f"{name!r} is not a valid name of a part")
        return StatePart(sections, name)
    part = StatePart(sections, None, _typed(content, "inline", bytes))
    if part.size_bytes != len(part.inline):
        raise ValueError(f"{len(part.inline)} bytes of state stand for {part.size_bytes}")
    return part


def _section_in(content: list[Any]) -> Section:
    label, length, checksum = content
    if isinstance(label, list):
        first, second = label
        label = (_natural(first), _natural(second))
    elif not isinstance(label, str):
        label = _natural(label)
    return Section(label, _natural(length), _natural(checksum))


def _all(content: dict[str, Any], key: str, take: Callable[[Any], Any]) -> tuple[Any, ...]:
    return tuple(take(one) for one in _typed(content, key, list))


def _count(content: dict[str, Any], key: str) -> int:
    return _natural(content[key])


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _typed(content: dict[str, Any], key: str, kind: type[Any]) -> Any:
    if type(content[key]) is not kind:
        raise TypeError(f"{key} is a {type(content[key]).__name__}")
    return content[key]

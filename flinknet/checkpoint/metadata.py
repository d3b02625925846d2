"""What a checkpoint says of itself: its ``metadata``, written last.

A checkpoint is self-describing: with its metadata and the files beside it nothing else is needed to
restore it. The state of a subtask is in *parts*, one for each kind of state, and a part is a row of
*sections*, each with a label, its length and its checksum: the key groups of keyed state, the names
of operator state, the channels of what was in flight. So a subtask of a job with another
parallelism reads, and checks, those sections alone that are its own. A small part stands in the
metadata itself. ``FORMAT.md`` has the bytes.
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
"""What a part may be called: nothing that leaves the directory, on any file system."""

_DIRECTORY = re.compile(r"(checkpoint|savepoint)-(0|[1-9][0-9]{0,18})-attempt-(0|[1-9][0-9]{0,18})")

Label: TypeAlias = int | str | tuple[int, int]
"""What a section is of: a key group; a state's name; a gate and its channel, or a partition and its
subpartition, as they are numbered in the subtask."""


class CheckpointDirectory(NamedTuple):
    """The directory of one checkpoint, below that of its job.

    Attempts have directories of their own, so that what one that was replaced still writes is never
    mixed with what its successor writes.
    """

    is_savepoint: bool
    checkpoint_id: int
    attempt: int

    def __str__(self) -> str:
        kind = "savepoint" if self.is_savepoint else "checkpoint"
        return f"{kind}-{self.checkpoint_id}-attempt-{self.attempt}"

    @classmethod
    def parse(cls, name: str) -> CheckpointDirectory | None:
        """Return the directory with this name, None if no checkpoint's is called so."""
        found = _DIRECTORY.fullmatch(name)
        return cls(found[1] == "savepoint", int(found[2]), int(found[3])) if found else None


class StateKind(StrEnum):
    """The kinds of state that a subtask has; each is one part at most."""

    KEYED = "keyed"
    OPERATOR = "operator"
    INPUT = "input"
    OUTPUT = "output"


class Section(NamedTuple):
    """A part's bytes from the end of the section before it on."""

    label: Label
    size_bytes: int
    crc32c: int


class StatePart(NamedTuple):
    """One kind of state of one subtask."""

    sections: tuple[Section, ...]
    name: str | None = None
    """The file beside the metadata that holds it; None if ``inline`` does."""
    inline: bytes = b""

    @property
    def size_bytes(self) -> int:
        """Bytes of all sections."""
        return sum(section.size_bytes for section in self.sections)

    @property
    def labels(self) -> tuple[Label, ...]:
        """What its sections are of, in their order."""
        return tuple(section.label for section in self.sections)

    def offsets(self) -> Iterator[tuple[Section, int]]:
        """Yield each section and where it begins."""
        start = 0
        for section in self.sections:
            yield section, start
            start += section.size_bytes


class SubtaskState(NamedTuple):
    """The state of one subtask of an operator. Without a part it is empty."""

    subtask_index: int
    parts: Mapping[StateKind, StatePart]
    finished: bool = False
    """Whether the subtask had processed its last record, so that it need not run again."""

    @property
    def has_own_state(self) -> bool:
        """Whether its operator has state there; what was in flight is not its operator's."""
        return not self.parts.keys().isdisjoint((StateKind.KEYED, StateKind.OPERATOR))

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.size_bytes for part in self.parts.values())


class OperatorState(NamedTuple):
    """The state of one operator: that of all its subtasks that have some."""

    uid: str
    """What the operator is called in every version of the job."""
    parallelism: int
    max_parallelism: int
    """Number of key groups, which cannot change."""
    subtasks: tuple[SubtaskState, ...] = ()

    def finished_at(self, parallelism: int) -> set[int]:
        """The subtasks that have finished, of so many: if all had, they all have at any number; if
        some had, none of others, which share what the rest of them had left."""
        finished = {subtask.subtask_index for subtask in self.subtasks if subtask.finished}
        if len(finished) == self.parallelism:
            return set(range(parallelism))
        return finished if parallelism == self.parallelism else set()


class Exchange(NamedTuple):
    """An exchange of the job, as the labels of what was in flight number it.

    Numbers change with the job: another chain, or one exchange more, and they are others. So who
    restores finds an exchange by the operators at its ends.
    """

    sender: str
    """The uid of the operator whose records it carries."""
    tag: str | None
    """Which side output of that operator; None for its main output."""
    sender_head: str
    """The uid of the first operator of that one's chain, whose state has what was in flight."""
    partition: int
    """Its number in the sender's chain: the first of a label of kind ``output``."""
    receiver: str
    """The uid of the operator that reads it, which is the first of its chain."""
    input: int
    """Which of the receiver's inputs it is for: 0, or 1 for the second of two."""
    gate: int
    """Its number at the receiver: the first of a label of kind ``input``."""
    partitioner: str
    """The partitioner's name, ``"HASH"``."""
    pointwise: bool
    """Whether a subtask was connected with some subtasks of the other side, not with all."""
    stamped: bool
    """Whether records are tuples ``(timestamp, value)``."""


class CheckpointMetadata(NamedTuple):
    """Everything that a checkpoint says of itself."""

    job_id: str
    job: str
    """The job's name, for people."""
    attempt: int
    """The execution of the job that made it."""
    checkpoint_id: int
    kind: CheckpointKind
    triggered_ms: int
    """When its barriers were created, in milliseconds since 1970."""
    completed_ms: int
    operators: tuple[OperatorState, ...]
    written_by: str = ""
    """The version of flinknet, for people."""
    exchanges: tuple[Exchange, ...] = ()
    """Those of the job, if something was in flight; else there are none."""

    @property
    def directory(self) -> CheckpointDirectory:
        """Where it is kept."""
        return CheckpointDirectory(self.kind.is_savepoint, self.checkpoint_id, self.attempt)

    @property
    def duration_ms(self) -> int:
        """Time from the trigger to the completion; clocks may have been set meanwhile."""
        return max(self.completed_ms - self.triggered_ms, 0)

    @property
    def size_bytes(self) -> int:
        """Bytes of all state, that in the metadata included."""
        return sum(
            subtask.size_bytes for operator in self.operators for subtask in operator.subtasks
        )

    def parts(self) -> Iterator[tuple[OperatorState, SubtaskState, StateKind, StatePart]]:
        """Yield every part and whose it is."""
        for operator in self.operators:
            for subtask in operator.subtasks:
                for kind, part in subtask.parts.items():
                    yield operator, subtask, kind, part

    def files(self) -> dict[str, StatePart]:
        """Return the parts that are files, by name."""
        return {part.name: part for *_, part in self.parts() if part.name is not None}


def encode_metadata(metadata: CheckpointMetadata, bytes_max: int) -> bytes:
    """Return the file's bytes. CheckpointError if they are more than ``bytes_max``."""
    content = metadata._asdict() | {
        "kind": metadata.kind.name.lower(),
        "operators": [*map(_operator_out, metadata.operators)],
        "exchanges": [exchange._asdict() for exchange in metadata.exchanges],
    }
    if not metadata.exchanges:
        del content["exchanges"]
    return put_in_envelope({"what": "checkpoint", **content}, bytes_max)


def decode_metadata(file: bytes, name: str) -> CheckpointMetadata:
    """Return what a file says. CheckpointCorruptedError, with ``name``, if it is no metadata."""
    content = open_envelope(file, name)
    try:
        return _metadata_in(content)
    except (KeyError, TypeError, ValueError) as cause:
        raise CheckpointCorruptedError(
            f"{name} is no metadata of a checkpoint: {type(cause).__name__}: {cause}"
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
        raise ValueError(f"it says that it is {content['what']!r}")
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
            f"operator {operator.uid} of {operator.parallelism} subtasks has state of {indexes}"
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
            raise ValueError(f"{name!r} is no name of a part")
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
        raise ValueError(f"{value!r} is no count")
    return value


def _typed(content: dict[str, Any], key: str, kind: type[Any]) -> Any:
    if type(content[key]) is not kind:
        raise TypeError(f"{key} is a {type(content[key]).__name__}")
    return content[key]

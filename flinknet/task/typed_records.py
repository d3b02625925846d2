"""Records of a declared type: made so where they leave an operator, restored where they come in.

What a type says of a value stands in ``type_information.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flinknet.task.context import RuntimeContext
from flinknet.task.operators import Emit, Operator
from flinknet.task.type_information import Convert, TypeInformation, converter

__all__ = ["InputType", "restored", "typed"]


class InputType(NamedTuple):
    """What the records of one input of an operator are declared to be."""

    kind: TypeInformation | None
    stamped: bool
    """Whether they are tuples ``(timestamp, value)``."""


def typed(emit: Emit, operator: Operator, kind: TypeInformation, *, stamped: bool) -> Emit:
    """Return an ``emit`` of an operator whose records are made what their type says; one that
    cannot be fails the operator."""
    convert = converter(kind)
    if convert is None:
        return emit

    async def emit_typed(records: list[Any]) -> None:
        try:
            if stamped:
                records = [(stamp, convert(value)) for stamp, value in records]
            else:
                records = [convert(value) for value in records]
        except Exception as error:
            operator.fail(error, f"to make its result what it is declared to be, {kind!r}")
        await emit(records)

    return emit_typed


def restored(head: Operator, context: RuntimeContext, inputs: Sequence[InputType]) -> Emit:
    """Return a ``process`` of the first operator of a chain, for records that have come over the
    network, where lists arrive as tuples; ``inputs`` has its one input, or its two."""
    process, place = head.process, context.process_context
    converts: list[Convert | None] = [
        converter(kind) if kind is not None and kind.has_lists else None for kind, _ in inputs
    ]

    async def process_restored(records: list[Any]) -> None:
        which = int(len(converts) > 1 and place.channel >= context.channels_of_first_input)
        convert = converts[which]
        if convert is not None:
            if inputs[which].stamped:
                records = [(stamp, convert(value)) for stamp, value in records]
            else:
                records = [convert(value) for value in records]
        await process(records)

    return process_restored

"""Records of a declared type: made so where they leave an operator, restored where they come in.

What a type says of a value stands in ``type_information.py``. A batch of records that are right
already goes on as the list that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from flinknet.functions.context import RuntimeContext
from flinknet.functions.type_information import TypeInformation, converter
from flinknet.operators.operators import Emit, Operator
from flinknet.operators.stamps import Batch, Stamp, StampedArrivals, StampedBatch
from flinknet.records.conversion import Conversion

__all__ = ["InputType", "restored", "typed"]


class InputType(NamedTuple):
    """What the records of one input of an operator are as they come over the network."""

    kind: TypeInformation | None
    """What they are declared to be."""
    stamped: bool
    """Whether they are tuples ``(timestamp, value)``."""


def typed(emit: Emit, operator: Operator, kind: TypeInformation) -> Emit:
    """Return an ``emit`` of an operator whose records are made what their type says; one that
    cannot be fails the operator."""
    conversion = converter(kind)
    if conversion is None:
        return emit
    each = conversion.each

    def emit_typed(records: Batch) -> Coroutine[Any, Any, None]:
        made: Batch
        try:
            if isinstance(records, StampedBatch):
                made = StampedBatch(each(records.values), records.stamps)
            else:
                made = each(records)
        except Exception as error:
            operator.fail(error, f"to make its result what it is declared to be, {kind!r}")
        return emit(made)

    return emit_typed


def restored(head: Operator, context: RuntimeContext, inputs: Sequence[InputType]) -> Emit:
    """Return a ``process`` of the first operator of a chain, for records that have come over the
    network, where lists arrive as tuples, and timestamps within their records; ``inputs`` has its
    one input, or its two."""
    process, place, iterates_once = head.process, context.process_context, head.iterates_once
    restores = [_restoring(one) for one in inputs]
    if not any(restores):
        return process

    def process_restored(records: list[Any]) -> Coroutine[Any, Any, None]:
        which = int(len(restores) > 1 and place.channel >= context.channels_of_first_input)
        restore = restores[which]
        batch = records if restore is None else restore(records)
        if isinstance(batch, StampedArrivals) and not iterates_once:
            batch = StampedBatch.of(batch.pairs)
        return process(batch)

    head.iterates_once = iterates_once or all(one.stamped for one in inputs)
    return process_restored


def _restoring(records: InputType) -> Callable[[Any], Any] | None:
    """Return a function that makes batches of an input fit the operator; None if they do.

    Records that are unpacked when they are asked for are made lists then, too."""
    kind = records.kind
    conversion = converter(kind) if kind is not None and kind.has_lists else None
    if records.stamped:
        return StampedArrivals if conversion is None else partial(_with_lists, conversion)
    if conversion is None:
        return None
    each, as_they_come = conversion.each, conversion.as_they_come
    return lambda batch: (each if isinstance(batch, list) else as_they_come)(batch)


def _with_lists(conversion: Conversion, pairs: Iterable[tuple[Stamp, Any]]) -> StampedArrivals:
    return StampedArrivals((stamp, conversion(value)) for stamp, value in pairs)

"""Records of a declared type: converted when they leave an operator, restored when they arrive.

``type_information.py`` describes how a type converts a value. A batch of records that already
conform is passed on as the same list.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from flinknet.functions.context import RuntimeContext
from flinknet.functions.type_information import TypeInformation, converter
from flinknet.operators.operators import Emit, Operator
from flinknet.operators.timestamped_batch import (
    Batch,
    Timestamp,
    TimestampedArrivals,
    TimestampedBatch,
)
from flinknet.records.conversion import Conversion

__all__ = ["InputType", "restored", "typed"]


class InputType(NamedTuple):
    """The records of one operator input, as they arrive from the network."""

    kind: TypeInformation | None
    """Declared type of the records."""
    stamped: bool
    """Whether the records are tuples ``(timestamp, value)``."""


def typed(emit: Emit, operator: Operator, kind: TypeInformation) -> Emit:
    """Return an ``emit`` that converts the records to their declared type.

    A record that cannot be converted fails the operator.
    """
    conversion = converter(kind)
    if conversion is None:
        return emit
    each = conversion.each

    def emit_typed(records: Batch) -> Coroutine[Any, Any, None]:
        made: Batch
        try:
            if isinstance(records, TimestampedBatch):
                made = TimestampedBatch(each(records.values), records.stamps)
            else:
                made = each(records)
        except Exception as error:
            operator.fail(error, f"to convert its result to the declared type, {kind!r}")
        return emit(made)

    return emit_typed


def restored(head: Operator, context: RuntimeContext, inputs: Sequence[InputType]) -> Emit:
    """Return a ``process`` of a chain's first operator for records from the network.

    Lists arrive as tuples, and timestamps within the records; both are restored. ``inputs`` has one
    entry per input of the operator, one or two.
    """
    process, place, iterates_once = head.process, context.process_context, head.iterates_once
    restores = [_restoring(one) for one in inputs]
    if not any(restores):
        return process

    def process_restored(records: list[Any]) -> Coroutine[Any, Any, None]:
        which = int(len(restores) > 1 and place.channel >= context.channels_of_first_input)
        restore = restores[which]
        batch = records if restore is None else restore(records)
        if isinstance(batch, TimestampedArrivals) and not iterates_once:
            batch = TimestampedBatch.of(batch.pairs)
        return process(batch)

    # If all inputs have timestamps, arrivals are always adapted here, even for a head that needs a
    # list.
    head.iterates_once = iterates_once or all(one.stamped for one in inputs)
    return process_restored


def _restoring(records: InputType) -> Callable[[Any], Any] | None:
    """Return a function that adapts batches of an input to the operator, or None if they fit.

    Records that are unpacked on demand get their lists back at that point.
    """
    kind = records.kind
    conversion = converter(kind) if kind is not None and kind.has_lists else None
    if records.stamped:
        return TimestampedArrivals if conversion is None else partial(_with_lists, conversion)
    if conversion is None:
        return None
    each, as_they_come = conversion.each, conversion.as_they_come
    return lambda batch: (each if isinstance(batch, list) else as_they_come)(batch)


def _with_lists(
    conversion: Conversion, pairs: Iterable[tuple[Timestamp, Any]]
) -> TimestampedArrivals:
    return TimestampedArrivals((stamp, conversion(value)) for stamp, value in pairs)

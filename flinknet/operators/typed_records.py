"""Records of a declared type: made so where they leave an operator, restored where they come in.

What a type says of a value stands in ``type_information.py``. A batch of records that are right
already goes on as the list that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from flinknet.functions.context import RuntimeContext
from flinknet.functions.type_information import TypeInformation, converter
from flinknet.operators.operators import Emit, Operator
from flinknet.records.conversion import Conversion

__all__ = ["InputType", "restored", "typed"]


class InputType(NamedTuple):
    """What the records of one input of an operator are declared to be."""

    kind: TypeInformation | None
    stamped: bool
    """Whether they are tuples ``(timestamp, value)``."""


def typed(emit: Emit, operator: Operator, kind: TypeInformation, *, stamped: bool) -> Emit:
    """Return an ``emit`` of an operator whose records are made what their type says; one that
    cannot be fails the operator."""
    conversion = converter(kind)
    if conversion is None:
        return emit
    each = _of_each(conversion, stamped=stamped)

    def emit_typed(records: list[Any]) -> Coroutine[Any, Any, None]:
        try:
            made = each(records)
        except Exception as error:
            operator.fail(error, f"to make its result what it is declared to be, {kind!r}")
        return emit(made)

    return emit_typed


def restored(head: Operator, context: RuntimeContext, inputs: Sequence[InputType]) -> Emit:
    """Return a ``process`` of the first operator of a chain, for records that have come over the
    network, where lists arrive as tuples; ``inputs`` has its one input, or its two."""
    process, place = head.process, context.process_context
    restores = [_restoring(one) for one in inputs]

    def process_restored(records: list[Any]) -> Coroutine[Any, Any, None]:
        which = int(len(restores) > 1 and place.channel >= context.channels_of_first_input)
        restore = restores[which]
        return process(records if restore is None else restore(records))

    return process_restored


def _restoring(records: InputType) -> Callable[[Any], Any] | None:
    """Return what makes lists of tuples in the records of an input; None if they have no lists.

    Records that are unpacked when they are asked for are made lists then, too."""
    kind, stamped = records
    conversion = converter(kind) if kind is not None and kind.has_lists else None
    if conversion is None:
        return None
    each = _of_each(conversion, stamped=stamped)
    as_they_come = partial(conversion.as_they_come, stamped=stamped)
    return lambda batch: (each if isinstance(batch, list) else as_they_come)(batch)


def _of_each(conversion: Conversion, *, stamped: bool) -> Callable[[list[Any]], list[Any]]:
    return conversion.each_stamped if stamped else conversion.each

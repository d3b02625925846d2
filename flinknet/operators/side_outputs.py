"""Side outputs: results of an operator that belong to another stream than its main one.

Theory of operation. A process function yields ``tag, value``. The results of process functions and
of windows are sorted here before they go on: a value goes to the operators that read its tag, or is
dropped if no operator does. It makes no difference to the main stream whether a tag is read.

Programs without side outputs pay nothing for that: a tag can only be yielded where one exists, and
``OutputTag.exists`` says whether this process has ever made or received one. Where one exists, each
batch of results is searched for tags (``tagged_results.py``), and goes on as it is if it has none.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, final

from flinknet.errors import ConfigurationError
from flinknet.functions.type_information import RowTypeInfo, TypeInformation, converter
from flinknet.operators.operators import Emit, Operator
from flinknet.operators.stamps import Batch, StampedBatch, in_pairs, values_of
from flinknet.operators.tagged_results import has_tags
from flinknet.records.conversion import Conversion
from flinknet.records.value_copy import never_changes

__all__ = ["OutputTag", "split_outputs"]


@final
@never_changes
@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output, whose records are what ``type_info`` says, if anything; a list of types
    is that of rows (PyFlink's OutputTag)."""

    exists: ClassVar[bool] = False
    """Whether a tag was made in this process, or came into it."""

    tag_id: str
    type_info: TypeInformation | list[TypeInformation] | None = field(default=None, compare=False)
    conversion: Conversion | None = field(default=None, init=False, repr=False, compare=False)
    """What makes its records what the type says; None if nothing was said."""

    def __post_init__(self) -> None:
        if not isinstance(self.tag_id, str) or not self.tag_id:
            raise ConfigurationError(f"the tag of a side output is {self.tag_id!r}: choose a name")
        if isinstance(self.type_info, list):
            object.__setattr__(self, "type_info", RowTypeInfo(self.type_info))
        object.__setattr__(self, "conversion", converter(self.type))
        OutputTag.exists = True

    def __init_subclass__(cls) -> NoReturn:
        # A subclass would not be found among results, where only the exact class is looked for.
        raise ConfigurationError("OutputTag cannot be subclassed: make tags of different names")

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and tags that travel are made anew, so that ``exists`` is right everywhere.
        return OutputTag, (self.tag_id, self.type_info)

    @property
    def type(self) -> TypeInformation | None:
        """What its records are, None if nothing was said."""
        return None if isinstance(self.type_info, list) else self.type_info


def split_outputs(main: Emit, sides: Mapping[str, Emit], operator: Operator) -> Emit:
    """Return an ``emit`` of the operator that sends ``(tag, value)`` to the tag's side, and the
    rest to ``main``.

    The side gets the value with the timestamp of the result, if it has one. A tag without a value,
    or with several, fails the operator.
    """

    async def split(results: Batch) -> None:
        kept = StampedBatch([], [])
        aside: dict[str, StampedBatch] = {}
        for stamp, value in in_pairs(results):
            first = value[0] if type(value) is tuple and value else value
            if type(first) is not OutputTag:
                kept.values.append(value)
                kept.stamps.append(stamp)
                continue
            try:
                tag, sent = _tagged(value)
            except Exception as error:
                operator.fail(error, "to give a result to a side output")
            side = aside.get(tag.tag_id)
            if side is None:
                side = aside[tag.tag_id] = StampedBatch([], [])
            side.values.append(sent)
            side.stamps.append(stamp)
        stamped = isinstance(results, StampedBatch)
        if len(kept):
            await main(kept if stamped else kept.values)
        for tag_id, records in aside.items():
            if tag_id in sides:
                await sides[tag_id](records if stamped else records.values)

    def emit(results: Batch) -> Coroutine[Any, Any, None]:
        if OutputTag.exists and has_tags(values_of(results), OutputTag):
            return split(results)
        return main(results)

    return emit


def _tagged(result: Any) -> tuple[OutputTag, Any]:
    """Return a result's tag and its value, made what the tag says."""
    if type(result) is OutputTag or len(result) != 2:
        raise TypeError(f"it yielded {result!r:.200}: yield a tag and one value, tag, value")
    tag, value = result
    return tag, value if tag.conversion is None else tag.conversion(value)

"""Side outputs: results of an operator that belong to a stream other than its main output.

Theory of operation. A process function yields ``tag, value``. ``split_outputs`` sorts the results
of process functions and windows: a value goes to the operators that read its tag, or is dropped if
no operator does. Whether a tag is read makes no difference to the main stream.

Programs without side outputs pay nothing. A tag can only be yielded if one exists, and
``OutputTag.exists`` says whether this process has ever created or received one. If so, each batch
of results is searched for tags (``tagged_results.py``) and passed on unchanged if it has none.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, final

from flinknet.compatibility.subscripted import Subscripted, T
from flinknet.errors import ConfigurationError
from flinknet.functions.type_information import RowTypeInfo, TypeInformation, converter
from flinknet.operators.operators import Emit, Operator
from flinknet.operators.tagged_results import has_tags
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch, as_pairs, values_of
from flinknet.records.conversion import Conversion
from flinknet.records.value_copy import never_changes

__all__ = ["OutputTag", "split_outputs"]


@final
@never_changes
@dataclass(frozen=True, slots=True)
class OutputTag(Subscripted[T]):
    """Name of a side output, and optionally the type of its records (PyFlink's OutputTag).

    A list as ``type_info`` declares rows with fields of these types.
    """

    exists: ClassVar[bool] = False
    """Whether a tag was created in this process, or received by it."""

    tag_id: str
    type_info: TypeInformation | list[TypeInformation] | None = field(default=None, compare=False)
    conversion: Conversion | None = field(default=None, init=False, repr=False, compare=False)
    """Converts a record to the declared type; None without a declared type."""

    def __post_init__(self) -> None:
        if not isinstance(self.tag_id, str) or not self.tag_id:
            raise ConfigurationError(f"the tag of a side output is {self.tag_id!r}: choose a name")
        if isinstance(self.type_info, list):
            object.__setattr__(self, "type_info", RowTypeInfo(self.type_info))
        object.__setattr__(self, "conversion", converter(self.type))
        OutputTag.exists = True

    def __init_subclass__(cls) -> NoReturn:
        # The search for tags compares the exact class, so it would miss a subclass.
        raise ConfigurationError("OutputTag cannot be subclassed: create tags with different names")

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and unpickled tags run __post_init__, so that ``exists`` is right in each process.
        return OutputTag, (self.tag_id, self.type_info)

    @property
    def type(self) -> TypeInformation | None:
        """Declared type of the records; None without one."""
        return None if isinstance(self.type_info, list) else self.type_info


def split_outputs(main: Emit, sides: Mapping[str, Emit], operator: Operator) -> Emit:
    """Return an ``emit`` that sends each ``(tag, value)`` to the tag's side output.

    All other results go to ``main``. The side output gets the value with the timestamp of the
    result, if it has one. A tag without a value, or with several, fails the operator.
    """

    async def split(results: Batch) -> None:
        kept = TimestampedBatch([], [])
        aside: dict[str, TimestampedBatch] = {}
        for stamp, value in as_pairs(results):
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
                side = aside[tag.tag_id] = TimestampedBatch([], [])
            side.values.append(sent)
            side.stamps.append(stamp)
        stamped = isinstance(results, TimestampedBatch)
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
    """Return the tag and the value of a result; the value is converted to the tag's type."""
    if type(result) is OutputTag or len(result) != 2:
        raise TypeError(f"it yielded {result!r:.200}: yield a tag and one value, tag, value")
    tag, value = result
    return tag, value if tag.conversion is None else tag.conversion(value)

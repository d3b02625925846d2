"""Side outputs: results of an operator that belong to another stream than its main one.

A process function yields ``tag, value``. Where a program reads any side output, the results of its
process functions and windows are sorted here before they go on; what nobody reads is dropped. Other
programs do not pay for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinknet.errors import ConfigurationError
from flinknet.task.operators import Emit
from flinknet.task.type_information import RowTypeInfo, TypeInformation, converter

__all__ = ["OutputTag", "split_outputs"]


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output, whose records are what ``type_info`` says, if anything; a list of types
    is that of rows (PyFlink's OutputTag)."""

    tag_id: str
    type_info: TypeInformation | list[TypeInformation] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.tag_id, str) or not self.tag_id:
            raise ConfigurationError(f"the tag of a side output is {self.tag_id!r}: choose a name")
        if isinstance(self.type_info, list):
            object.__setattr__(self, "type_info", RowTypeInfo(self.type_info))
        converter(self.type)

    @property
    def type(self) -> TypeInformation | None:
        """What its records are, None if nothing was said."""
        return None if isinstance(self.type_info, list) else self.type_info


def split_outputs(main: Emit, sides: Mapping[str, Emit], *, stamped: bool) -> Emit:
    """Return an ``emit`` that sends ``(tag, value)`` to the tag's side, and the rest to ``main``.

    With timestamps a result is ``(timestamp, (tag, value))``, and the side gets
    ``(timestamp, value)``.
    """

    async def emit(results: list[Any]) -> None:
        kept: list[Any] = []
        aside: dict[str, list[Any]] = {}
        for result in results:
            value = result[1] if stamped else result
            if type(value) is tuple and len(value) == 2 and type(value[0]) is OutputTag:
                tag, sent = value
                convert = converter(tag.type)
                sent = sent if convert is None else convert(sent)
                side = aside.setdefault(tag.tag_id, [])
                side.append((result[0], sent) if stamped else sent)
            else:
                kept.append(result)
        if kept:
            await main(kept)
        for tag, records in aside.items():
            if tag in sides:
                await sides[tag](records)

    return emit

"""Records of every kind in the specification, with their JSON forms of the foreign peers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo


class Colour(Enum):
    RED = 1


class Permission(Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Reading:
    sensor: str
    day: date


TYPES: dict[int, type] = {0: Colour, 3: Permission, 4: Point, 5: Reading}

HOUR = 3_600_000_000


def _extension(number: int, content: Any) -> dict[str, Any]:
    return {"type": number, "content": content}


ROWS: dict[str, tuple[Any, Any]] = {
    "nil": (None, None),
    "booleans": ((True, False), [True, False]),
    "small": (1, 1),
    "negative": (-33, -33),
    "int32": (-(2**31), -(2**31)),
    "uint32": (2**32 - 1, 2**32 - 1),
    "beyond 32 bits": ((2**40, -(2**40)), [2**40, -(2**40)]),
    "most": (2**64 - 1, {"integer": str(2**64 - 1)}),
    "least": (-(2**63), {"integer": str(-(2**63))}),
    "float": (4.5, 4.5),
    "infinite": ((float("inf"), float("-inf")), [{"float": "inf"}, {"float": "-inf"}]),
    "text": ("Καλημέρα 🐿", "Καλημέρα 🐿"),
    "long text": ("x" * 300, "x" * 300),
    "binary": (b"\x00\xff", {"bytes": "00ff"}),
    "array": ((1, ("two", (3.5,)), ()), [1, ["two", [3.5]], []]),
    "map": ({"a": (1,), "b": {}}, {"map": [["a", [1]], ["b", {"map": []}]]}),
    "map of any keys": (
        {7: "seven", None: 0, "7": "text", date(2020, 1, 1): True},
        {"map": [[7, "seven"], [None, 0], ["7", "text"], [_extension(1, 18262), True]]},
    ),
    "moment in UTC": (
        datetime(2020, 1, 1, tzinfo=UTC),
        _extension(-1, {"bytes": "5e0be100"}),
    ),
    "date": (date(2020, 1, 1), _extension(1, 18262)),
    "time": (time(1, fold=1), _extension(2, [HOUR, None, 1])),
    "time at an offset": (
        time(1, tzinfo=timezone(timedelta(hours=-2))),
        _extension(2, [HOUR, -2 * HOUR, 0]),
    ),
    "moment": (datetime(1970, 1, 1, 1), _extension(3, [HOUR, None, 0])),
    "moment at an offset with a name": (
        datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1), "there")),
        _extension(3, [HOUR, [HOUR, "there"], 0]),
    ),
    "moment in a zone": (
        datetime(1970, 1, 1, 1, tzinfo=ZoneInfo("Europe/Oslo")),
        _extension(3, [HOUR, "Europe/Oslo", 0]),
    ),
    "span": (timedelta(days=-1, seconds=5, microseconds=6), _extension(4, [-1, 5, 6])),
    "decimal": (Decimal("1.50"), _extension(5, "1.50")),
    "UUID": (UUID(int=7), _extension(6, {"bytes": "00" * 15 + "07"})),
    "set": ({7}, _extension(7, [7])),
    "frozen set": (frozenset([(7, 8)]), _extension(8, [[7, 8]])),
    "named tuple": (Point(3, 4), _extension(9, [4, 3, 4])),
    "dataclass": (
        Reading("s", date(2020, 1, 1)),
        _extension(9, [5, "s", _extension(1, 18262)]),
    ),
    "member": (Colour.RED, _extension(10, [0, "RED"])),
    "flags": (Permission.READ | Permission.WRITE, _extension(10, [3, 3])),
    "all in one": (
        (Point(1, 2), {"when": (time(1), frozenset({UUID(int=7)}))}),
        [
            _extension(9, [4, 1, 2]),
            {
                "map": [
                    [
                        "when",
                        [
                            _extension(2, [HOUR, None, 0]),
                            _extension(8, [_extension(6, {"bytes": "00" * 15 + "07"})]),
                        ],
                    ]
                ]
            },
        ],
    ),
}

VALUES = [value for value, _ in ROWS.values()]
FORMS = [form for _, form in ROWS.values()]

LONG = [("x" * length, length) for length in (0, 500, 511, 512, 513, 1_600, 5_000, 0, 1)]
"""Records, most of which span several buffers of 512 bytes."""
LONG_FORMS = [list(record) for record in LONG]

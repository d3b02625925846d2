"""Random window cases: assigner, trigger, evictor, and a history of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

__all__ = ["Action", "Case", "draw"]

ACTIONS_MAX = 40
TIME_MAX = 120
KEYS = ("a", "b")


@dataclass(frozen=True)
class Action:
    """A record that arrives, or a step of time."""

    kind: str
    """``record``, ``watermark`` or ``clock``."""
    time_ms: int
    key: str = ""
    n: int = 0


@dataclass(frozen=True)
class Case:
    """One window operator, and its history."""

    assigner: str
    """``tumbling``, ``sliding``, ``session``, ``dynamic session``, ``global`` or ``count``."""
    is_event_time: bool
    size_ms: int
    slide_ms: int
    offset_ms: int
    trigger: str
    """``default``, ``count``, ``continuous`` or ``never``."""
    trigger_size: int
    is_purging: bool
    evictor: str
    """``none``, ``count``, ``time`` or ``delta``."""
    evictor_size: int
    evicts_after: bool
    contents: str
    """``elements``, ``reduce`` or ``aggregate``."""
    lateness_ms: int
    late_output: bool
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        fields = [f"{name}={value!r}" for name, value in vars(self).items() if name != "actions"]
        actions = [
            f"  {one.kind} {one.time_ms} {one.key} {one.n if one.kind == 'record' else ''}".rstrip()
            for one in self.actions
        ]
        return "\n".join([f"Case({', '.join(fields)})", *actions])

    def features(self) -> set[str]:
        """Return the features of the case."""
        time = "event time" if self.is_event_time else "processing time"
        found = {
            f"{self.assigner}, {time}",
            f"trigger {self.trigger}",
            f"evictor {self.evictor}",
            f"contents {self.contents}",
        }
        if self.is_purging:
            found.add("purging")
        if self.evictor != "none":
            found.add("evicts after" if self.evicts_after else "evicts before")
        if self.lateness_ms:
            found.add("allowed lateness")
        if self.late_output:
            found.add("late output")
        if self.assigner == "sliding" and self.slide_ms > self.size_ms:
            found.add("slide > size")
        return found


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    random = Random(f"windows {seed}")

    def one_of(choices: Sequence[Any]) -> Any:
        return random.choice(choices)

    assigner = one_of(("tumbling", "sliding", "session", "dynamic session", "global"))
    is_event_time = assigner == "global" or random.random() < 0.6
    triggers = ["default", "default", "count", "continuous"]
    if assigner == "global":
        triggers = ["default", "count", "count"]
    size_ms = random.randint(1, 40)
    slide_ms = random.randint(1, 60)
    return Case(
        assigner=assigner,
        is_event_time=is_event_time,
        size_ms=size_ms,
        slide_ms=max(slide_ms, size_ms // 5 + 1),
        offset_ms=one_of((0, 0, 1, -7)),
        trigger=one_of(triggers),
        trigger_size=random.randint(1, 20),
        is_purging=random.random() < 0.3,
        evictor=one_of(("none", "none", "none", "count", "time", "delta")),
        evictor_size=random.randint(1, 15),
        evicts_after=random.random() < 0.4,
        contents=one_of(("elements", "elements", "reduce", "aggregate")),
        lateness_ms=one_of((0, 0, 10, 50)) if is_event_time and assigner != "global" else 0,
        late_output=random.random() < 0.5,
        actions=tuple(_actions(random, is_event_time=is_event_time)),
    )


def _actions(random: Random, *, is_event_time: bool) -> list[Action]:
    actions = []
    now = 0
    for number in range(random.randint(1, ACTIONS_MAX)):
        if random.random() < 0.3:
            now += random.randint(0, 25)
            actions.append(Action("watermark" if is_event_time else "clock", now))
        else:
            stamp = max(-20, now + random.randint(-40, 40))
            actions.append(Action("record", stamp, random.choice(KEYS), number))
    if random.random() < 0.5:
        actions.append(Action("watermark" if is_event_time else "clock", TIME_MAX * 100))
    return actions

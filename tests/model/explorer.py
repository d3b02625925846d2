"""Breadth-first search over all states of a world.

A state is a pickle of the world; going on from it means to load it and take one step. The first
violation found is therefore one with the fewest steps, and the path to it is reported.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from flinknet.errors import FlinknetError
from tests.model.world import BrokenInvariantError, Shape, Step, World


@dataclass(frozen=True)
class Exploration:
    """What was seen: states, steps between them, states in which everything is done."""

    states: int
    steps: int
    ends: int


class ViolationFoundError(AssertionError):
    """A violation, with the steps that lead to it."""


def _blank(size: int) -> memoryview:
    return memoryview(bytearray(size))


def _memoryview(view: memoryview) -> tuple[Callable[[int], memoryview], tuple[int]]:
    """Keep no content: between steps the only views are receive buffers, and they are empty."""
    return _blank, (len(view),)


def freeze(world: World) -> bytes:
    """Return the world as bytes; equal states give equal bytes nearly always."""
    world.scrub()
    target = io.BytesIO()
    pickler = pickle.Pickler(target, protocol=5)
    pickler.dispatch_table = copyreg.dispatch_table.copy()
    pickler.dispatch_table[memoryview] = _memoryview
    pickler.dump(world)
    return target.getvalue()


def explore(shape: Shape, states_max: int) -> Exploration:
    """Visit every reachable state. Raises ViolationFoundError at the first violation, or if there
    are too many."""
    first = freeze(World(shape))
    origin: dict[bytes, tuple[bytes, Step] | None] = {_digest(first): None}
    waiting = deque([first])
    steps_taken = ends = 0
    while waiting:
        frozen = waiting.popleft()
        here = _digest(frozen)
        steps = pickle.loads(frozen).steps()
        if not steps:
            ends += 1
            _checked(origin, here, None, pickle.loads(frozen))
        for step in steps:
            world: World = pickle.loads(frozen)
            _checked(origin, here, step, world)
            steps_taken += 1
            reached = freeze(world)
            key = _digest(reached)
            if key not in origin:
                origin[key] = (here, step)
                waiting.append(reached)
                assert len(origin) <= states_max, f"more than {states_max} states"
    return Exploration(len(origin), steps_taken, ends)


def _digest(frozen: bytes) -> bytes:
    return blake2b(frozen, digest_size=16).digest()


def _checked(
    origin: dict[bytes, tuple[bytes, Step] | None], here: bytes, step: Step | None, world: World
) -> None:
    try:
        if step is None:
            world.check_end()
        else:
            world.take(step)
    except (AssertionError, FlinknetError) as violation:
        path = [step] if step is not None else []
        while (arrival := origin[here]) is not None:
            here, before = arrival
            path.append(before)
        story = " -> ".join(
            f"{taken.name} {taken.channel}" if taken.channel >= 0 else taken.name
            for taken in reversed(path)
        )
        kind = (
            "" if isinstance(violation, BrokenInvariantError) else f"{type(violation).__name__}: "
        )
        raise ViolationFoundError(f"{kind}{violation}\nafter: {story}") from violation

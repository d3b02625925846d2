"""Shrinks a failing program to a smaller one that fails in the same way.

A cut removes one thing, for instance a sink with the steps that only it reads, an operator, a
setting, a manner, or half of a source's records. The shrinker repeats cuts until nothing more can
be removed or time is up. A cut may make an invalid program, for instance one that takes the minimum
of a field that its records lack. Such a program fails in another way, so the cut is rejected. A
failure may be intermittent, so each cut is tried twice.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from tests.fuzz.jobs.interpreter import SINKS
from tests.fuzz.jobs.program import Input, Program, Step

__all__ = ["kind_of", "shrunk"]

TRIES = 2


async def shrunk(
    program: Program,
    failure: str,
    failure_of: Callable[[Program], Awaitable[str]],
    patience_s: float,
) -> tuple[Program, str]:
    """Return the smallest program found that fails in the same way, and its failure."""
    until = time.monotonic() + patience_s
    cuts = _cuts(program)
    while time.monotonic() < until and (smaller := next(cuts, None)) is not None:
        for _ in range(TRIES):
            still = await failure_of(smaller)
            if still and kind_of(still) == kind_of(failure):
                program, failure, cuts = smaller, still, _cuts(smaller)
                break
    return program, failure


def kind_of(failure: str) -> tuple[str, ...]:
    """Return the kind of a failure: the job hangs, raises these errors, or has other outputs."""
    line = failure.partition("\n")[0]
    if line.startswith("FAILS:"):
        return ("FAILS", *sorted(set(re.findall(r"\b\w*(?:Error|Exception|Exit)\b", line))))
    return ("HANGS",) if line.startswith("HANGS:") else ("differs",)


def _cuts(program: Program) -> Iterator[Program]:
    """Yield smaller programs, the largest cuts first."""
    for step in program.steps:
        if step.kind in SINKS:
            yield from _without(program, step.number)
    for step in reversed(program.steps):
        if len(step.inputs) != 1 or step.kind in SINKS:
            continue
        # A reader may need records with timestamps, or two streams that agree about event time.
        (before,) = (one for one in program.steps if one.number == step.inputs[0].step)
        if before.agrees_with(step):
            yield from _bypassing(program, step)
    if program.stop:
        yield replace(program, stop=False, rescale=False)
    for name in program.settings:
        settings = {key: value for key, value in program.settings.items() if key != name}
        yield replace(program, settings=settings)
    for step in program.steps:
        for simpler in _simpler(step):
            steps = tuple(simpler if one is step else one for one in program.steps)
            yield replace(program, steps=steps)


def _without(program: Program, sink: int) -> Iterator[Program]:
    """Yield the program without a sink, and without steps that only it reads."""
    steps = [step for step in program.steps if step.number != sink]
    while True:
        read = {one.step for step in steps for one in step.inputs}
        kept = [step for step in steps if step.kind in SINKS or step.number in read]
        if len(kept) == len(steps):
            break
        steps = kept
    if steps:
        yield replace(program, steps=tuple(steps))


def _bypassing(program: Program, step: Step) -> Iterator[Program]:
    """Yield the program in which the readers of a step read the step's input."""
    (before,) = step.inputs

    def other(one: Input) -> Input:
        return replace(one, step=before.step, side=before.side) if one.step == step.number else one

    steps = tuple(
        replace(reader, inputs=tuple(map(other, reader.inputs)))
        for reader in program.steps
        if reader.number != step.number
    )
    yield replace(program, steps=steps)


def _simpler(step: Step) -> Iterator[Step]:
    for name in step.settings:
        yield replace(step, settings={k: v for k, v in step.settings.items() if k != name})
    if step.trouble is not None:
        yield replace(step, trouble=None)
    if step.manner != "polite":
        yield replace(step, manner="polite")
    if step.options.get("count", 0) > 1:
        count = step.options["count"] // 2
        options = step.options | {"count": count}
        if "hold_at" in options:
            options["hold_at"] = min(count, options["hold_at"])
        yield replace(step, options=options)
    if step.options.get("payloads"):
        yield replace(step, options=step.options | {"payloads": False})

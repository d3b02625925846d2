"""Comparison of a job's output with the meaning of its program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from tests.fuzz.jobs.program import Program, Step
from tests.fuzz.jobs.values import parts, text_of_key, text_of_record

__all__ = ["difference"]

SHOWN = 4
"""Records shown for each kind of difference."""


def difference(step: Step, expected: Sequence[Any], given: Sequence[str], program: Program) -> str:
    """Return the difference between expected records and the texts of a sink's records, or "".

    Records are compared as multisets. Where their order is determined, they are also compared in
    order, all of them or by key.
    """
    texts = [text_of_record(record) for record in expected]
    missing, extra = Counter(texts), Counter(given)
    missing.subtract(given)
    extra.subtract(texts)
    lines = [
        *_shown("is missing", missing),
        *_shown("is too much", extra),
    ]
    if not lines and step.kind == "collect" and not program.stop:
        lines = _order_difference(step, expected, texts, given)
    if not lines:
        return ""
    counts = f"{len(texts)} records expected, {len(given)} came"
    return "\n".join([f"at s{step.number}: {counts}", *lines])


def _shown(what: str, counts: Counter[str]) -> list[str]:
    differing = [(text, count) for text, count in counts.items() if count > 0]
    lines = [f"  {count} x {what}: {text:.300}" for text, count in differing[:SHOWN]]
    if len(differing) > SHOWN:
        lines.append(f"  and {len(differing) - SHOWN} more")
    return lines


def _order_difference(
    step: Step, expected: Sequence[Any], texts: list[str], given: Sequence[str]
) -> list[str]:
    if step.order == "total" and list(given) != texts:
        return [f"  in another order: {list(given)[:9]}", f"  expected order: {texts[:9]}"]
    if step.order != "key":
        return []
    by_key: dict[str, list[str]] = defaultdict(list)
    key_of = {}
    for record, text in zip(expected, texts, strict=True):
        key_of[text] = text_of_key(parts(record)[0])
        by_key[key_of[text]].append(text)
    came: dict[str, list[str]] = defaultdict(list)
    for text in given:
        came[key_of[text]].append(text)
    return [
        f"  of key {key}, in another order: {came[key][:9]}; expected: {one[:9]}"
        for key, one in by_key.items()
        if came[key] != one
    ][:SHOWN]

"""Interleaved measurement, run by run, so that a disturbance affects all trials alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from bench.harness.family import Progress

__all__ = ["interleave"]

Result = TypeVar("Result")


def interleave(
    trials: Mapping[str, Callable[[], Result]], runs: int, progress: Progress
) -> dict[str, list[Result]]:
    """Run all trials in turn, ``runs`` times (A B C A B C ...); return the results by name."""
    results: dict[str, list[Result]] = {name: [] for name in trials}
    for run in range(1, runs + 1):
        for name, trial in trials.items():
            progress.begin(f"{name}, run {run} of {runs}")
            results[name].append(trial())
            progress.end()
    return results

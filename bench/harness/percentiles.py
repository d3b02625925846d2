"""Percentiles of times, shared by all families that measure latency."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from bench.errors import BenchError

__all__ = ["percentiles_us"]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def percentiles_us(nanoseconds: Sequence[int]) -> dict[str, float]:
    """Return microseconds by the name of the percentile.

    The nearest rank counts, so each result is a measured value. Raises BenchError if nothing was
    measured.
    """
    if not nanoseconds:
        raise BenchError("nothing was measured: the run is too short, or the system too slow")
    import numpy as np

    ordered = np.sort(np.asarray(nanoseconds))
    return {
        name: int(ordered[ceil(share * len(ordered)) - 1]) / 1000
        for name, share in QUANTILES.items()
    }

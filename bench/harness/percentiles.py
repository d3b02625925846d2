"""Percentiles of times, as every family that measures latency has them."""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import BenchError

__all__ = ["percentiles_us"]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def percentiles_us(nanoseconds: Sequence[int]) -> dict[str, float]:
    """Return microseconds by the name of the percentile; of the nearest rank, so each occurred.

    Raises BenchError if there is nothing.
    """
    import numpy as np

    if not nanoseconds:
        raise BenchError("nothing was measured: the run is too short, or the system too slow")

    shares = list(QUANTILES.values())
    values = np.quantile(np.asarray(nanoseconds), shares, method="inverted_cdf") / 1000
    return dict(zip(QUANTILES, values.tolist(), strict=True))

"""flinknet with a number of channels, from 1 to 1,000, over one connection, read by one gate.

The records are those of the case ``tuple``. A variant names the form of emitting and reading, then
the buffer timeout. All other settings are defaults.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain, cycle, repeat
from typing import Any

from bench.exchange.cases import small_tuples
from bench.harness.case import Case
from bench.harness.flinknet_system import (
    CONSUME,
    EMIT,
    Ends,
    as_the_variant_says,
    flinknet_system,
    network_parameters,
)
from flinknet import NetworkConfig, Partitioner, RebalancePartitioner
from flinknet.config import BufferTimeout

__all__ = ["CASES", "CHANNELS", "FORMS", "SKEW", "SYSTEM", "TIMEOUTS_MS", "SkewedPartitioner"]

SKEW = "skew"
CHANNELS = {f"channels-{channels}": channels for channels in (1, 10, 100, 1_000)} | {SKEW: 1_000}
"""Number of channels, by the names of the cases."""

ELSEWHERE = 100
"""With ``skew``, one record of this many does not go to the first channel."""

TIMEOUTS_MS: dict[str, BufferTimeout] = {
    "0 ms": 0,
    "1 ms": 1,
    "100 ms": 100,
    "adaptive": "adaptive",
}
"""Buffer timeouts, by the second halves of the variants' names."""

FORMS = ("record", "bulk")
"""First halves of the variants' names: ``emit`` and records, or ``emit_many`` and batches."""

CASES: tuple[Case, ...] = tuple(
    replace(
        small_tuples.CASE,
        name=name,
        summary=f"99 % of (int, int, float) to one of {channels:,} channels, the rest to all"
        if name == SKEW
        else f"(int, int, float) in turn to {channels:,} channel{'s' * (channels > 1)}",
        key=None,
    )
    for name, channels in CHANNELS.items()
)


class SkewedPartitioner(Partitioner):
    """Selects the first channel; one record of ``ELSEWHERE`` goes to each channel in turn."""

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Start with the first channel."""
        super().setup(channels)
        rounds = ((*repeat(0, ELSEWHERE - 1), channel) for channel in range(channels))
        self._turns = cycle(chain.from_iterable(rounds))
        # No Python call for each record, as in the even load: that cost is not under comparison.
        self.select = partial(next, self._turns)  # type: ignore[method-assign]

    def select(self, record: Any) -> int:
        """Return the next channel; ``setup`` replaces this method by a faster function."""
        return next(self._turns)


def _partitioner(case: Case) -> type[Partitioner]:
    return SkewedPartitioner if case.name == SKEW else RebalancePartitioner


def _ends_of(case: Case, variant: str) -> Ends:
    form, _, timeout = variant.partition(", ")
    return Ends(
        EMIT[form],
        CONSUME[form],
        _partitioner(case),
        CHANNELS[case.name],
        NetworkConfig(buffer_timeout_ms=TIMEOUTS_MS[timeout]),
    )


def _parameters(case: Case) -> dict[str, Any]:
    config = NetworkConfig()
    return {
        "channels": CHANNELS[case.name],
        "partitioner": _partitioner(case).__name__,
        "network_memory_bytes": config.network_memory_bytes,
        **network_parameters(config),
        **as_the_variant_says("buffer_timeout_ms"),
    }


SYSTEM = flinknet_system(
    "some number of channels over one connection",
    (f"{form}, {timeout}" for form in FORMS for timeout in TIMEOUTS_MS),
    _ends_of,
    _parameters,
)

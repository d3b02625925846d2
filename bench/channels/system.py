"""flinknet with a number of channels, from 1 to 1,000, over one connection, read by one gate.

The records are those of ``tuple``; every default is kept but the buffer timeout, which is the
second half of the variant; the first is how records are emitted and read.
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
"""By the names of the cases."""

ELSEWHERE = 100
"""With ``skew``, one record of so many does not go to the first channel."""

TIMEOUTS_MS: dict[str, BufferTimeout] = {
    "0 ms": 0,
    "1 ms": 1,
    "100 ms": 100,
    "adaptive": "adaptive",
}
"""Buffer timeouts, by the second halves of the variants' names."""

FORMS = ("record", "bulk")
"""``emit`` and records, or ``emit_many`` and batches: the first halves."""

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
    """To the first channel, but for one record of ``ELSEWHERE``, which goes to each in turn."""

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Begin with the first channel."""
        super().setup(channels)
        rounds = ((*repeat(0, ELSEWHERE - 1), channel) for channel in range(channels))
        self._turns = cycle(chain.from_iterable(rounds))
        # No call of Python's for each record, as with the even load: that is not what is compared.
        self.select = partial(next, self._turns)  # type: ignore[method-assign]

    def select(self, record: Any) -> int:
        """Return the first channel, or the next one; replaced by a faster function that does."""
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

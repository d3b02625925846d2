"""flinknet with a number of channels, from 1 to 1,000, over one connection, read by one gate.

The records are those of ``tuple``; every default is kept but the buffer timeout, which is the
second half of the variant; the first is how records are emitted and read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain, cycle, repeat
from typing import Any

from bench.exchange.cases import small_tuples
from bench.exchange.flinknet_system import (
    CONSUME,
    EMIT,
    FlinknetConsumer,
    FlinknetProducer,
    network_parameters,
    version,
)
from bench.harness.case import Case
from bench.harness.system import System
from flinknet import NetworkConfig, NetworkEnvironment, Partitioner, RebalancePartitioner
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
        self._next = cycle(chain.from_iterable(rounds)).__next__

    def select(self, record: Any) -> int:
        """Return the first channel, or the next one."""
        return self._next()


def _partitioner(case: Case) -> type[Partitioner]:
    return SkewedPartitioner if case.name == SKEW else RebalancePartitioner


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[FlinknetProducer]:
    """Open an environment to produce in."""
    form, _, timeout = variant.partition(", ")
    config = NetworkConfig(buffer_timeout_ms=TIMEOUTS_MS[timeout])
    async with NetworkEnvironment(config=config) as environment:
        yield FlinknetProducer(environment, EMIT[form], _partitioner(case), CHANNELS[case.name])


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[FlinknetConsumer]:
    """Open an environment to consume in."""
    form = variant.partition(", ")[0]
    async with NetworkEnvironment() as environment:
        yield FlinknetConsumer(environment, CONSUME[form], address, CHANNELS[case.name])


def _parameters(case: Case) -> dict[str, Any]:
    config = NetworkConfig()
    return {
        "channels": CHANNELS[case.name],
        "partitioner": _partitioner(case).__name__,
        "network_memory_bytes": config.network_memory_bytes,
        **network_parameters(config),
        "buffer_timeout_ms": "as the variant says",
    }


SYSTEM = System(
    name="flinknet",
    summary="some number of channels over one connection",
    variants=tuple(f"{form}, {timeout}" for form in FORMS for timeout in TIMEOUTS_MS),
    version=version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)

"""flinknet as it stands beside the peers, record by record over one channel: a variant for each of
some buffer timeouts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.exchange.flinknet_system import CONSUME, EMIT, FlinknetConsumer, FlinknetProducer
from bench.harness.case import Case
from bench.harness.system import System
from bench.peers import flinknet_ends
from bench.timeouts.system import TIMEOUTS
from flinknet import ForwardPartitioner, NetworkConfig, NetworkEnvironment

__all__ = ["SYSTEM"]

VARIANTS = ("adaptive", "0", "1 ms", "100 ms")
"""Names of timeouts; the first one is the default."""


def _environment(variant: str) -> NetworkEnvironment:
    return NetworkEnvironment(config=NetworkConfig(buffer_timeout_ms=TIMEOUTS[variant]))


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[FlinknetProducer]:
    """Open an environment to produce in."""
    async with _environment(variant) as environment:
        yield FlinknetProducer(environment, EMIT["record"], ForwardPartitioner, subpartitions=1)


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[FlinknetConsumer]:
    """Open an environment to consume in."""
    async with _environment(variant) as environment:
        yield FlinknetConsumer(environment, CONSUME["record"], address, subpartitions=1)


def _parameters(case: Case) -> dict[str, Any]:
    common = flinknet_ends.SYSTEM.parameters(case)
    return {**common, "buffer_timeout_ms": "as the variant says"}


SYSTEM = System(
    name="flinknet",
    summary="one channel with credit, with some buffer timeouts",
    variants=VARIANTS,
    version=flinknet_ends.SYSTEM.version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)

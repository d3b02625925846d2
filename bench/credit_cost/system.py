"""flinknet as in the family ``exchange``, with credit, without, and with checksums: a variant for
each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.exchange import flinknet_system
from bench.exchange.flinknet_system import FlinknetConsumer, FlinknetProducer
from bench.harness.case import Case
from bench.harness.system import System
from flinknet import NetworkConfig

__all__ = ["SYSTEM", "WITHOUT_CREDIT", "WITH_CHECKSUMS", "WITH_CREDIT"]

WITH_CREDIT, WITHOUT_CREDIT = "credit on", "credit off"
WITH_CHECKSUMS = "credit and checksums on"
CONFIGS = {
    WITH_CREDIT: NetworkConfig(flow_control="credit"),
    WITHOUT_CREDIT: NetworkConfig(flow_control="off"),
    WITH_CHECKSUMS: NetworkConfig(checksums="on"),
}


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[FlinknetProducer]:
    """Open an environment to produce in."""
    mode, _, credit = variant.partition(", ")
    async with flinknet_system.open_producer(case, mode, CONFIGS[credit]) as producer:
        yield producer


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[FlinknetConsumer]:
    """Open an environment to consume in."""
    mode, _, credit = variant.partition(", ")
    async with flinknet_system.open_consumer(case, mode, address, CONFIGS[credit]) as consumer:
        yield consumer


def _parameters(case: Case) -> dict[str, Any]:
    said = "as the variant says"
    return {**flinknet_system.parameters(case), "credit": said, "checksums": said}


SYSTEM = System(
    name="flinknet",
    summary="four channels over one connection, with credit, without, and with checksums",
    variants=tuple(f"{mode}, {credit}" for mode in ("record", "bulk") for credit in CONFIGS),
    version=flinknet_system.version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)

"""flinknet as in the family ``exchange``, record by record: a variant for each buffer timeout, with
credit and without."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bench.exchange import flinknet_system
from bench.exchange.flinknet_system import FlinknetConsumer, FlinknetProducer
from bench.harness.case import Case
from bench.harness.system import System
from flinknet import NetworkConfig
from flinknet.config import ADAPTIVE, BufferTimeout, FlowControl

__all__ = ["CREDIT", "LONG", "SYSTEM", "TIMEOUTS", "split"]

LONG = "100 ms"
"""Flink's default, and what the others are compared with."""

TIMEOUTS: Mapping[str, BufferTimeout] = {
    "0": 0.0,
    "1 ms": 1.0,
    "5 ms": 5.0,
    "10 ms": 10.0,
    LONG: 100.0,
    "-1": -1.0,
    "adaptive": ADAPTIVE,
}
CREDIT: Mapping[str, FlowControl] = {"credit on": "credit", "credit off": "off"}


def split(variant: str) -> tuple[str, str]:
    """Return the names of the timeout and of the mode."""
    timeout, _, credit = variant.partition(", ")
    return timeout, credit


def config_of(variant: str) -> NetworkConfig:
    """Return the configuration of both processes: every default but these two."""
    timeout, credit = split(variant)
    return NetworkConfig(buffer_timeout_ms=TIMEOUTS[timeout], flow_control=CREDIT[credit])


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[FlinknetProducer]:
    """Open an environment to produce in."""
    async with flinknet_system.open_producer(case, "record", config_of(variant)) as producer:
        yield producer


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[FlinknetConsumer]:
    """Open an environment to consume in."""
    config = config_of(variant)
    async with flinknet_system.open_consumer(case, "record", address, config) as consumer:
        yield consumer


def _parameters(case: Case) -> dict[str, Any]:
    said = dict.fromkeys(("buffer_timeout_ms", "credit"), "as the variant says")
    return {**flinknet_system.parameters(case), **said}


SYSTEM = System(
    name="flinknet",
    summary="four channels over one connection, with every buffer timeout",
    variants=tuple(f"{timeout}, {credit}" for credit in CREDIT for timeout in TIMEOUTS),
    version=flinknet_system.version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)

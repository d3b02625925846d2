"""flinknet with windows of different sizes: the variants are *exclusive + floating* buffers, and
how many a producer may queue if not the default.

One channel has the connection to itself, so the window of its gate is the window of the link.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from bench.exchange.cases import payloads
from bench.exchange.flinknet_system import (
    FlinknetConsumer,
    FlinknetProducer,
    consume_batches,
    emit_blocks,
    network_parameters,
    version,
)
from bench.harness.case import Case
from bench.harness.system import System
from bench.peers import sockets
from flinknet import ForwardPartitioner, NetworkConfig, NetworkEnvironment

__all__ = ["CASES", "DELAYS_S", "LINK", "SYSTEM", "WINDOWS", "window_bytes"]

DELAYS_S = {f"rtt-{milliseconds}ms": milliseconds / 2000 for milliseconds in (0, 1, 5, 20)}
"""One way, by the names of the cases."""

CASES: tuple[Case, ...] = tuple(
    replace(
        payloads.BUFFER_SIZED,
        name=name,
        summary=f"32 KiB of bytes over a link with {delay_s * 1000:g} ms of delay each way",
    )
    for name, delay_s in DELAYS_S.items()
)

WINDOWS = {
    f"{exclusive} + {floating}": NetworkConfig(
        buffers_per_channel=exclusive, floating_buffers_per_gate=floating
    )
    for exclusive, floating in ((2, 8), (24, 8), (2, 126), (120, 8), (504, 8))
} | {
    "2 + 126, 128 queued": NetworkConfig(
        buffers_per_channel=2, floating_buffers_per_gate=126, buffers_per_subpartition_max=128
    )
}
"""By the names of the variants, the default first; 2 + 126 and 120 + 8 have equal sums."""


def window_bytes(config: NetworkConfig) -> int:
    """Return what one channel of a gate may be sent before anything is consumed."""
    buffers = config.buffers_per_channel + config.floating_buffers_per_gate
    return buffers * config.segment_bytes


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[FlinknetProducer]:
    """Open an environment to produce in."""
    async with NetworkEnvironment(config=WINDOWS[variant]) as environment:
        yield FlinknetProducer(environment, emit_blocks, ForwardPartitioner, subpartitions=1)


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[FlinknetConsumer]:
    """Open an environment to consume in; ``address`` is the relay's."""
    async with NetworkEnvironment(config=WINDOWS[variant]) as environment:
        yield FlinknetConsumer(environment, consume_batches, address, subpartitions=1)


def _parameters(case: Case) -> dict[str, Any]:
    buffers = "as the variant says"
    return {
        **network_parameters(NetworkConfig()),
        "buffers_per_channel": buffers,
        "floating_buffers_per_gate": buffers,
    }


SYSTEM = System(
    name="flinknet",
    summary="one channel with a window of some buffers",
    variants=tuple(WINDOWS),
    version=version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
LINK = replace(
    sockets.SYSTEM,
    name="link",
    summary="the link itself: raw blocking sockets through the same relay, without a window",
)

"""flinknet with windows of different sizes.

The variants are *exclusive + floating* buffers, and the number of buffers that a producer may queue
if that is not the default. One channel has the connection to itself, so the window of its gate is
the window of the link.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.exchange.cases import payloads
from bench.harness.case import Case
from bench.harness.flinknet_system import (
    CONSUME,
    EMIT,
    Ends,
    as_the_variant_says,
    flinknet_system,
    network_parameters,
)
from bench.peers import sockets
from flinknet import ForwardPartitioner, NetworkConfig

__all__ = ["CASES", "DELAYS_S", "LINK", "SYSTEM", "WINDOWS", "window_bytes"]

DELAYS_S = {f"rtt-{milliseconds}ms": milliseconds / 2000 for milliseconds in (0, 1, 5, 20)}
"""One-way delays, by the names of the cases."""

CASES: tuple[Case, ...] = tuple(
    replace(
        payloads.BUFFER_SIZED,
        name=name,
        summary=f"32 KiB of bytes over a link with {delay_s * 1000:g} ms of delay each way",
    )
    for name, delay_s in DELAYS_S.items()
)

_BUFFERS = NetworkConfig(segment_bytes=32 * 1024)
WINDOWS = {
    f"{exclusive} + {floating}": replace(
        _BUFFERS, buffers_per_channel=exclusive, floating_buffers_per_gate=floating
    )
    for exclusive, floating in ((2, 8), (24, 8), (2, 126), (120, 8), (504, 8))
} | {
    "2 + 126, 128 queued": replace(
        _BUFFERS,
        buffers_per_channel=2,
        floating_buffers_per_gate=126,
        buffers_per_subpartition_max=128,
    )
}
"""Configurations by the names of the variants; 2 + 126 and 120 + 8 have equal sums."""


def window_bytes(config: NetworkConfig) -> int:
    """Return the bytes that one channel of a gate may receive before anything is consumed."""
    buffers = config.buffers_per_channel + config.floating_buffers_per_gate
    return buffers * config.segment_bytes


def _ends_of(case: Case, variant: str) -> Ends:
    return Ends(EMIT["bulk"], CONSUME["bulk"], ForwardPartitioner, config=WINDOWS[variant])


def _parameters(case: Case) -> dict[str, Any]:
    return {
        **network_parameters(_BUFFERS),
        **as_the_variant_says("buffers_per_channel", "floating_buffers_per_gate"),
    }


SYSTEM = flinknet_system(
    "one channel with a window of some buffers", WINDOWS, _ends_of, _parameters
)
LINK = replace(
    sockets.SYSTEM,
    name="link",
    summary="the link itself: raw blocking sockets through the same relay, without a window",
)

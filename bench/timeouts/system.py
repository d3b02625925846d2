"""flinknet as in the family ``exchange``, record by record.

Each buffer timeout is a variant with credit and a variant without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.exchange import system as exchange
from bench.harness.case import Case
from bench.harness.flinknet_system import Ends, as_the_variant_says, flinknet_system
from flinknet import NetworkConfig
from flinknet.config import ADAPTIVE, BufferTimeout, FlowControl

__all__ = ["CREDIT", "LONG", "SYSTEM", "TIMEOUTS", "split"]

LONG = "100 ms"
"""Flink's default, with which the others are compared."""

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
    """Return the configuration of both processes: defaults, except timeout and flow control."""
    timeout, credit = split(variant)
    return NetworkConfig(buffer_timeout_ms=TIMEOUTS[timeout], flow_control=CREDIT[credit])


def _ends_of(case: Case, variant: str) -> Ends:
    return replace(exchange.ends_of(case, "record"), config=config_of(variant))


def _parameters(case: Case) -> dict[str, Any]:
    return {**exchange.parameters(case), **as_the_variant_says("buffer_timeout_ms", "credit")}


SYSTEM = flinknet_system(
    "four channels over one connection, with every buffer timeout",
    (f"{timeout}, {credit}" for credit in CREDIT for timeout in TIMEOUTS),
    _ends_of,
    _parameters,
)

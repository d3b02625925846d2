"""flinknet as in the family ``exchange``, with credit, without, and with checksums: a variant for
each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.exchange import system as exchange
from bench.harness.case import Case
from bench.harness.flinknet_system import Ends, as_the_variant_says, flinknet_system
from flinknet import NetworkConfig

__all__ = ["SYSTEM", "WITHOUT_CREDIT", "WITH_CHECKSUMS", "WITH_CREDIT"]

WITH_CREDIT, WITHOUT_CREDIT = "credit on", "credit off"
WITH_CHECKSUMS = "credit and checksums on"
CONFIGS = {
    WITH_CREDIT: NetworkConfig(flow_control="credit"),
    WITHOUT_CREDIT: NetworkConfig(flow_control="off"),
    WITH_CHECKSUMS: NetworkConfig(checksums="on"),
}


def _ends_of(case: Case, variant: str) -> Ends:
    form, _, has = variant.partition(", ")
    return replace(exchange.ends_of(case, form), config=CONFIGS[has])


def _parameters(case: Case) -> dict[str, Any]:
    return {**exchange.parameters(case), **as_the_variant_says("credit", "checksums")}


SYSTEM = flinknet_system(
    "four channels over one connection, with credit, without, and with checksums",
    (f"{form}, {has}" for form in ("record", "bulk") for has in CONFIGS),
    _ends_of,
    _parameters,
)

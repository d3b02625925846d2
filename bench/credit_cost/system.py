"""flinknet as in the family ``exchange``, with a variant for each feature.

The features are credit on and off, checksums, a secret, and TLS.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.exchange import system as exchange
from bench.harness.case import Case
from bench.harness.flinknet_system import Ends, as_the_variant_says, flinknet_system
from flinknet import NetworkConfig

__all__ = [
    "SYSTEM",
    "TLS_WITHOUT_CREDIT",
    "TLS_WITH_CREDIT",
    "WITHOUT_CREDIT",
    "WITH_CHECKSUMS",
    "WITH_CREDIT",
    "WITH_SECRET",
]

WITH_CREDIT, WITHOUT_CREDIT = "credit on", "credit off"
WITH_CHECKSUMS = "credit and checksums on"
WITH_SECRET = "credit and a secret"
TLS_WITH_CREDIT, TLS_WITHOUT_CREDIT = "TLS, credit on", "TLS, credit off"
_CREDIT, _NO_CREDIT = NetworkConfig(flow_control="credit"), NetworkConfig(flow_control="off")
CONFIGS: dict[str, dict[str, Any]] = {
    WITH_CREDIT: {"config": _CREDIT},
    WITHOUT_CREDIT: {"config": _NO_CREDIT},
    WITH_CHECKSUMS: {"config": NetworkConfig(checksums="on")},
    WITH_SECRET: {"config": _CREDIT, "secret": "of sixteen bytes"},
    TLS_WITH_CREDIT: {"config": _CREDIT, "tls": True},
    TLS_WITHOUT_CREDIT: {"config": _NO_CREDIT, "tls": True},
}


def _ends_of(case: Case, variant: str) -> Ends:
    form, _, has = variant.partition(", ")
    return replace(exchange.ends_of(case, form), **CONFIGS[has])


def _parameters(case: Case) -> dict[str, Any]:
    return {
        **exchange.parameters(case),
        **as_the_variant_says("credit", "checksums", "secret", "TLS"),
    }


SYSTEM = flinknet_system(
    "four channels over one connection, with credit, without, with checksums, and over TLS",
    (f"{form}, {has}" for form in ("record", "bulk") for has in CONFIGS),
    _ends_of,
    _parameters,
)

"""flinknet as it is compared with the peers, record by record over one channel.

Each of some buffer timeouts is a variant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.harness.case import Case
from bench.harness.flinknet_system import Ends, as_the_variant_says, flinknet_system
from bench.peers import flinknet_ends
from bench.timeouts.system import TIMEOUTS
from flinknet import NetworkConfig

__all__ = ["SYSTEM"]

VARIANTS = ("adaptive", "0", "1 ms", "100 ms")
"""Names of timeouts; the first one is the default."""


def _ends_of(case: Case, variant: str) -> Ends:
    config = NetworkConfig(buffer_timeout_ms=TIMEOUTS[variant])
    return replace(flinknet_ends.ends_of(case, "record"), config=config)


def _parameters(case: Case) -> dict[str, Any]:
    return {**flinknet_ends.SYSTEM.parameters(case), **as_the_variant_says("buffer_timeout_ms")}


SYSTEM = flinknet_system(
    "one channel with credit, with some buffer timeouts", VARIANTS, _ends_of, _parameters
)

"""flinknet with four channels that share one connection, with default settings."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.harness.case import Case
from bench.harness.flinknet_system import CONSUME, EMIT, Ends, flinknet_system, network_parameters
from flinknet import HashPartitioner, NetworkConfig, Partitioner, RebalancePartitioner

__all__ = ["SYSTEM", "ends_of", "parameters"]

SUBPARTITIONS = 4


def ends_of(case: Case, variant: str) -> Ends:
    """Return the ends for ``record`` or ``bulk``."""
    return Ends(EMIT[variant], CONSUME[variant], partial(_partitioner, case), SUBPARTITIONS)


def _partitioner(case: Case) -> Partitioner:
    return HashPartitioner(case.key) if case.key is not None else RebalancePartitioner()


def parameters(case: Case) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    return {
        "subpartitions": SUBPARTITIONS,
        "partitioner": type(_partitioner(case)).__name__,
        "credit": "on",
        **network_parameters(NetworkConfig()),
    }


SYSTEM = flinknet_system(
    "four channels with credit over one connection", ("record", "bulk"), ends_of, parameters
)

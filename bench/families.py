"""All families by name; a new family needs a module and a line here."""

from __future__ import annotations

from bench.adaptive.family import AdaptiveFamily
from bench.attackers.family import AttackersFamily
from bench.barriers.family import BarriersFamily
from bench.broadcast.family import BroadcastFamily
from bench.channels.family import ChannelsFamily
from bench.checkpoints.family import CheckpointsFamily
from bench.credit_cost.family import CreditCostFamily
from bench.errors import UsageError
from bench.exchange.family import ExchangeFamily
from bench.harness.family import Family
from bench.isolation.family import IsolationFamily
from bench.latency.family import LatencyFamily
from bench.micro.family import MicroFamily
from bench.peers.family import PeersFamily
from bench.pressure.family import PressureFamily
from bench.ramp_up.family import RampUpFamily
from bench.scale.family import ScaleFamily
from bench.seeing.family import SeeingFamily
from bench.slow_code.family import SlowCodeFamily
from bench.timeouts.family import TimeoutsFamily
from bench.window.family import WindowFamily

__all__ = ["FAMILIES", "find_family"]

_ALL: tuple[Family, ...] = (
    ExchangeFamily(),
    PeersFamily(),
    IsolationFamily(),
    AdaptiveFamily(),
    CreditCostFamily(),
    BroadcastFamily(),
    ScaleFamily(),
    TimeoutsFamily(),
    LatencyFamily(),
    RampUpFamily(),
    ChannelsFamily(),
    WindowFamily(),
    SeeingFamily(),
    PressureFamily(),
    SlowCodeFamily(),
    AttackersFamily(),
    BarriersFamily(),
    CheckpointsFamily(),
    MicroFamily(),
)

FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}


def find_family(name: str) -> Family:
    """Return a family by name. Raises UsageError that lists the existing names."""
    if name not in FAMILIES:
        raise UsageError(f"there is no family {name!r}: choose from {', '.join(FAMILIES)}")
    return FAMILIES[name]

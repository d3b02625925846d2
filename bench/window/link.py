"""The link between the two ends of a run: a relay in a separate process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.process import Part, Pipe
from bench.harness.sides import answers, open_sides
from bench.harness.system import Contestant
from bench.harness.trial import Measurement, Plan, measure
from bench.window.relay import measure_round_trip, open_relay

__all__ = ["Link", "measure_over_link"]


class Link:
    """A delayed link between two processes; ``round_trip_s`` is known once it is open."""

    def __init__(self, delay_s: float) -> None:
        self.round_trip_s = 0.0
        self._delay_s = delay_s

    @contextmanager
    def open(self, address: str) -> Iterator[str]:
        """Yield the address of the relay to ``address``."""
        with open_sides(Part("the relay", partial(relay, self._delay_s), None)) as sides:
            (side,) = sides
            (self.round_trip_s,) = answers(sides)
            side.tell(address)
            (reached_at,) = answers(sides)
            yield reached_at
            side.tell(None)
            answers(sides)


async def relay(delay_s: float, pipe: Pipe) -> None:
    """Run the relay process.

    It sends the duration of a round trip, receives an address, and relays to it until told to end.
    It is not pinned: on a machine with two CPUs it shares those of the ends.
    """
    pipe.send(measure_round_trip(delay_s))
    with open_relay(await pipe.receive(), delay_s) as address:
        pipe.send(address)
        await pipe.receive()


def measure_over_link(
    delay_s: float, contestant: Contestant, case: Case, plan: Plan, pinning: Pinning
) -> Measurement:
    """Run a system once over a link. Raises BenchError if a process fails or does not answer."""
    link = Link(delay_s)
    measurement = measure(contestant, case, plan, pinning, route=link.open)
    round_trip_ms = round(link.round_trip_s * 1000, 3)
    observations = {**measurement.observations, "round_trip_ms": round_trip_ms}
    return replace(measurement, observations=observations)

"""One run of a ping-pong: two processes, a warm-up, and every round trip of the measured time."""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import Any, NamedTuple

from bench.harness.case import Case
from bench.harness.percentiles import percentiles_us
from bench.harness.pinning import Pinning
from bench.harness.process import Clocks, Part, Pipe
from bench.harness.sides import answers, open_sides
from bench.harness.trial import Plan, TimedMeasurement
from bench.peers.pingpong.system import Ping, PingPongSystem

__all__ = ["RoundTrips", "measure"]


class RoundTrips(TimedMeasurement):
    """A measurement with round trips as its records."""


class Trips(NamedTuple):
    """The measured trips in nanoseconds, their window, and whether all records matched."""

    nanoseconds: list[int]
    window: Clocks
    all_same: bool


def measure(system: PingPongSystem, case: Case, plan: Plan, pinning: Pinning) -> RoundTrips:
    """Run once. Raises BenchError if a process fails or does not answer."""
    name = f"{case.name}, {system.name}: the"
    parts = (
        Part(f"{name} pinging end", partial(ping, system, case, plan), pinning.producer),
        Part(f"{name} echo", partial(echo, system), pinning.consumer),
    )
    with open_sides(*parts) as sides:
        pinging, echoing = sides
        pinging.tell(answers([echoing])[0])
        echoing.tell(answers([pinging])[0])
        (trips,) = answers([pinging], plan.warm_up_s + plan.seconds)
        (echo_share,) = answers([echoing])
        answers(sides)
    count, seconds = len(trips.nanoseconds), trips.window.wall
    return RoundTrips(
        records=count,
        seconds=seconds,
        producer_cpu_seconds=trips.window.cpu,
        # The echo does not know the window, so it reports its share of a CPU.
        consumer_cpu_seconds=echo_share * seconds,
        verified=trips.all_same,
        observations={},
        latency_us=percentiles_us(trips.nanoseconds),
    )


async def ping(system: PingPongSystem, case: Case, plan: Plan, pipe: Pipe) -> None:
    """Run the measuring end."""
    record = case.make_block()[0]
    echo_address = await pipe.receive()
    async with system.open_ping(echo_address) as end:
        pipe.send(end.address)
        before = await _trips(end, record, plan.warm_up_s)
        measured = await _trips(end, record, plan.seconds)
    pipe.send(measured._replace(all_same=before.all_same and measured.all_same))


async def echo(system: PingPongSystem, pipe: Pipe) -> None:
    """Run the end that sends back, and report the share of a CPU that it took."""
    async with system.open_echo() as end:
        pipe.send(end.address)
        ping_address = await pipe.receive()
        begun = Clocks.read()
        await end.serve(ping_address)
        time = Clocks.read() - begun
    pipe.send(time.cpu / time.wall)


async def _trips(end: Ping, record: Any, seconds: float) -> Trips:
    nanoseconds: list[int] = []
    all_same = True
    begun = Clocks.read()
    now = perf_counter_ns()
    deadline = now + int(seconds * 1e9)
    while now < deadline:
        sent = now
        returned = await end.round_trip(record)
        now = perf_counter_ns()
        nanoseconds.append(now - sent)
        all_same = all_same and returned == record
    return Trips(nanoseconds, Clocks.read() - begun, all_same)

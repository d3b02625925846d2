"""The systems and variants that take part in each case of ``peers``, and reasons of absences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from bench.harness import trial
from bench.harness.case import Case
from bench.harness.contest import Absence, Entrant
from bench.harness.pinning import Pinning
from bench.harness.system import Contestant, System
from bench.harness.trial import Measurement, Plan
from bench.peers import (
    arrow_flight,
    dask_comm,
    flinknet_ends,
    flinknet_job,
    grpc_aio,
    keyby,
    pure,
    pyzmq,
    pyzmq_asyncio,
    sockets,
    stream,
    websockets,
)
from bench.peers.cases import COLUMNAR, KEYBY, PING_PONG, RECORD_CASES
from bench.peers.codec import PAYLOADS
from bench.peers.flink import system as flink
from bench.peers.flinknet_ends import LARGE_BUFFERS
from bench.peers.pingpong import trial as ping_pong_trial
from bench.peers.pingpong.busy_poll import busy
from bench.peers.pingpong.system import PingPongSystem

__all__ = ["FLINKNET", "PEERS", "Peer"]

RECORDS = tuple(case.name for case in RECORD_CASES)
LARGE = ("bytes-32k", "bytes-1m")
"""Cases with records so long that a message for a whole block gains nothing."""

JOBS = ("tuple", KEYBY.name)
"""Cases that compare flinknet's job with Flink's, and compiled flinknet with plain Python."""

NO_KEYS = "no exchange by key among several workers"
NO_BATCHES = "no form for record batches but bytes, and those have their own cases"
NO_RECORDS = "the limit for bytes, not a way to move records"
NO_COLUMNS = "the DataStream API has no record batches"
NO_WAY_BACK = "no path from a sink back to its source"
NO_TRIPS = "made for batches one after the other, not for one record at a time"
REASONS = {KEYBY.name: NO_KEYS, COLUMNAR.name: NO_BATCHES, PING_PONG.name: NO_TRIPS}

Parameters = Callable[[Case], Mapping[str, Any]]
Measure = Callable[[Case, Plan, Pinning], Measurement]
Variants = Mapping[str, tuple[str, ...]]
"""Variants by the name of the case."""


class Peer(Protocol):
    """A system in the comparison; flinknet is one, too."""

    @property
    def name(self) -> str:
        """The name that ``--against`` takes."""

    @property
    def summary(self) -> str:
        """A description in one line."""

    def enter(self, case: Case) -> list[Entrant | Absence]:
        """Return the system's variants on a case, or its one absence."""


@dataclass(frozen=True, slots=True)
class PythonPeer:
    """A system of two Python processes, with its ``variants`` by the name of the case."""

    system: System
    variants: Variants
    ping_pongs: tuple[PingPongSystem, ...] = ()

    @property
    def name(self) -> str:
        """The name of the system."""
        return self.system.name

    @property
    def summary(self) -> str:
        """The summary of the system."""
        return self.system.summary

    def enter(self, case: Case) -> list[Entrant | Absence]:
        """Return the variants for the case, or an absence."""
        if case is PING_PONG and self.ping_pongs:
            return [
                Entrant(system.name, system.variant, system.version, *_ping_pong(system))
                for system in self.ping_pongs
            ]
        return [
            Entrant(
                self.name,
                variant,
                self.system.version,
                self.system.parameters,
                partial(trial.measure, Contestant(self.system, variant)),
            )
            for variant in self.variants.get(case.name, ())
        ] or [Absence(self.name, REASONS.get(case.name, NO_RECORDS))]


class FlinknetPeer(PythonPeer):
    """flinknet, which also runs as a job with workers."""

    def enter(self, case: Case) -> list[Entrant | Absence]:
        """Return the variants for the case, also those of plain Python."""
        forms = list(self.forms(case))
        entrants: list[Entrant | Absence] = [
            Entrant(self.name, variant, self.system.version, parameters, measure)
            for variant, parameters, measure in forms
        ]
        entrants += [
            Entrant(
                self.name,
                pure.variant_name(variant),
                pure.version,
                partial(pure.parameters, parameters),
                partial(pure.measure, variant),
            )
            for variant, parameters, _ in forms
            if case.name in JOBS and variant != COLUMNAR.name
        ]
        return entrants

    def forms(self, case: Case) -> Iterator[tuple[str, Parameters, Measure]]:
        """Yield the variants on a case, with the functions that describe and measure each."""
        if case is PING_PONG:
            for system in self.ping_pongs:
                yield system.variant, *_ping_pong(system)
        elif case is KEYBY:
            for variant in keyby.VARIANTS:
                yield variant, keyby.parameters, partial(keyby.measure, variant)
        else:
            for variant in self.variants[case.name]:
                contestant = Contestant(self.system, variant)
                parameters = partial(flinknet_ends.parameters, variant)
                yield variant, parameters, partial(trial.measure, contestant)
        if case.name in JOBS:
            for variant, variation in flinknet_job.VARIANTS.items():
                yield (
                    variant,
                    partial(flinknet_job.parameters, variant=variant),
                    partial(flinknet_job.measure, variation=variation),
                )


class FlinkPeer:
    """Flink, which runs in Java processes."""

    name = "flink"
    summary = flink.SUMMARY

    def enter(self, case: Case) -> list[Entrant | Absence]:
        """Return the variants for the case, or an absence.

        Flink takes part in all cases with records that go in one direction.
        """
        if case is COLUMNAR:
            return [Absence(self.name, NO_COLUMNS)]
        if case is PING_PONG:
            return [Absence(self.name, NO_WAY_BACK)]
        return [
            Entrant(
                self.name,
                variant,
                flink.version,
                partial(flink.parameters, variant),
                partial(flink.measure, variant),
            )
            for variant in flink.VARIANTS
            if variant != "large-buffers" or case.name in PAYLOADS
        ]


def _ping_pong(system: PingPongSystem) -> tuple[Parameters, Measure]:
    return lambda case: system.parameters, partial(ping_pong_trial.measure, system)


def _every(*variants: str, besides: Variants | None = None) -> Variants:
    """Return the same variants for all records, and the variants in ``besides`` for its cases."""
    return {**dict.fromkeys(RECORDS, variants), **(besides or {})}


FLINKNET = FlinknetPeer(
    flinknet_ends.SYSTEM,
    _every(
        "record",
        "bulk",
        besides={
            "tuple": ("record", "bulk", "columnar"),
            **dict.fromkeys(PAYLOADS, ("record", "bulk", f"bulk{LARGE_BUFFERS}")),
            COLUMNAR.name: ("columnar", f"columnar{LARGE_BUFFERS}"),
        },
    ),
    flinknet_ends.PING_PONGS,
)
PEERS: tuple[Peer, ...] = (
    FlinkPeer(),
    PythonPeer(
        pyzmq.SYSTEM,
        _every("record", "bulk", besides=dict.fromkeys(LARGE, ("record",))),
        (pyzmq.PING_PONG,),
    ),
    PythonPeer(pyzmq_asyncio.SYSTEM, _every("record"), (pyzmq_asyncio.PING_PONG,)),
    PythonPeer(grpc_aio.SYSTEM, _every("record"), (grpc_aio.PING_PONG,)),
    PythonPeer(websockets.SYSTEM, _every("record"), (websockets.PING_PONG,)),
    PythonPeer(
        dask_comm.SYSTEM,
        _every(
            "record",
            "bulk",
            besides={**dict.fromkeys(LARGE, ("record",)), COLUMNAR.name: ("columnar",)},
        ),
        (dask_comm.PING_PONG,),
    ),
    PythonPeer(
        arrow_flight.SYSTEM,
        _every("bulk", besides={"tuple": ("bulk", "columnar"), COLUMNAR.name: ("columnar",)}),
    ),
    PythonPeer(stream.SYSTEM, _every("record"), (stream.PING_PONG, busy(stream.PING_PONG))),
    PythonPeer(sockets.SYSTEM, dict.fromkeys(PAYLOADS, ("bytes",)), (sockets.PING_PONG,)),
)

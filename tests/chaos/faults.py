"""Faults applied to a cluster from outside, and the failures that they explain.

Each fault is applied to a running cluster, and names the errors that it explains. A job that ends
in another way, or too late, fails its trial.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import re
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from flinknet.cluster import LocalCluster
from flinknet.cluster.launch.process_output import COORDINATOR

__all__ = ["FAULTS", "Fault", "can_reset"]

FLOOD_SOCKETS = 200
"""More sockets than a worker lets wait for a handshake."""

_PIDFD_GETFD = 438
_ESTABLISHED, _LISTEN = "01", "0A"


@dataclass(frozen=True)
class Effect:
    """The effect of a fault."""

    what: str
    """A description for the report."""
    explains: str
    """A pattern for the error of a job that fails because of it; empty if no job may fail."""
    spoils: bool
    """Whether the cluster is unusable afterwards."""
    undo: ExitStack = field(default_factory=ExitStack)
    """Callbacks that must run before the cluster is stopped."""


class Fault:
    """A kind of fault."""

    name = ""

    async def apply(self, cluster: LocalCluster, chance: random.Random) -> Effect:
        """Apply the fault to a process that ``chance`` selects."""
        raise NotImplementedError


class Nothing(Fault):
    """No fault, as a check of the trials themselves."""

    name = "nothing"

    async def apply(self, cluster: LocalCluster, chance: random.Random) -> Effect:
        return Effect("nothing", "", spoils=False)


class Kill(Fault):
    """SIGKILL for a worker or the coordinator."""

    name = "kill"

    async def apply(self, cluster: LocalCluster, chance: random.Random) -> Effect:
        name, pid = chance.choice(sorted(cluster.pids().items()))
        os.kill(pid, signal.SIGKILL)
        role = f"the coordinator (pid {pid})" if name == COORDINATOR else f"{name} (pid {pid})"
        explains = re.escape(role) + r".* killed by signal 9 \(SIGKILL\)"
        if name == COORDINATOR:
            # The new coordinator tells the clients of jobs that cannot be resumed.
            explains = re.escape(role) + " was lost while the job ran"
        return Effect(f"kill -9 {name}", explains, spoils=True)


class Stop(Fault):
    """SIGSTOP without an end: the process lives, but is silent."""

    name = "stop"

    async def apply(self, cluster: LocalCluster, chance: random.Random) -> Effect:
        name, pid = chance.choice(sorted(cluster.pids().items()))
        os.kill(pid, signal.SIGSTOP)
        undo = ExitStack()
        undo.callback(_continue, pid)
        silent = rf"{name}.*(no sign of life|has taken none|has been silent|nothing heard)"
        if name == COORDINATOR:
            silent = r"the cluster is lost: .*coordinator|lost the coordinator"
        return Effect(f"SIGSTOP {name}", silent, spoils=True, undo=undo)


class Pause(Fault):
    """SIGSTOP for a shorter time than any heartbeat timeout."""

    name = "pause"

    async def apply(self, cluster: LocalCluster, chance: random.Random) -> Effect:
        name, pid = chance.choice(sorted(cluster.pids().items()))
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(chance.uniform(0.05, 0.5))
        finally:
            _continue(pid)
        return Effect(f"pause {name}", "", spoils=False)


class Reset(Fault):
    """RST on an established connection of a worker, to another worker or to the coordinator."""

    name = "reset"

    async def apply(self, cluster: LocalCluster, chance: random.Random) -> Effect:
        workers = sorted(name for name in cluster.pids() if name != COORDINATOR)
        name = chance.choice(workers)
        pid = cluster.pids()[name]
        connections = sorted(_sockets(pid, _ESTABLISHED))
        if not connections:
            return Effect(f"reset {name}: no connection yet", "", spoils=False)
        descriptor, peer = chance.choice(connections)
        _reset(pid, descriptor)
        control = int(cluster.address.rpartition(":")[2])
        whom = "the coordinator" if peer == control else "a worker"
        explains = (
            r"(worker-\d|coordinator).*"
            r"(connection|[Cc]annot connect|cannot be reached|lost the coordinator|reset)"
        )
        return Effect(f"RST {name} <-> {whom}", explains, spoils=True)


class Flood(Fault):
    """Strangers at the ports of a process that send nothing, heartbeats, zeros or HTTP."""

    name = "flood"

    async def apply(self, cluster: LocalCluster, chance: random.Random) -> Effect:
        name, pid = chance.choice(sorted(cluster.pids().items()))
        ports = [port for _, port in _sockets(pid, _LISTEN)]
        saying = chance.choice([b"", b"\x91\x0a" * 1000, bytes(1000), b"GET / HTTP/1.1\r\n"])
        undo = ExitStack()
        for number in range(FLOOD_SOCKETS):
            stranger = socket.socket()
            undo.callback(stranger.close)
            stranger.setblocking(False)
            with suppress(OSError):
                stranger.connect(("127.0.0.1", ports[number % len(ports)]))
            await asyncio.sleep(0)
            with suppress(OSError):
                stranger.send(saying)
        said = f"say {saying[:8]!r}" if saying else "say nothing"
        return Effect(f"{FLOOD_SOCKETS} strangers {said} to {name}", "", spoils=False, undo=undo)


FAULTS: tuple[Fault, ...] = (Nothing(), Kill(), Stop(), Pause(), Reset(), Flood())


def can_reset() -> bool:
    """Return whether a process may take a socket of its child here (Linux 5.6, no confinement)."""
    with _stolen(os.getpid(), 0) as descriptor:
        return descriptor is not None


def _continue(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@contextmanager
def _stolen(pid: int, descriptor: int) -> Iterator[int | None]:
    """Yield a duplicate of another process's descriptor, or None if this machine forbids it."""
    process = os.pidfd_open(pid)
    try:
        duplicate = ctypes.CDLL(None).syscall(_PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    try:
        yield duplicate if duplicate >= 0 else None
    finally:
        if duplicate >= 0:
            os.close(duplicate)


def _reset(pid: int, descriptor: int) -> None:
    """Make the kernel end a connection of another process with RST."""
    with _stolen(pid, descriptor) as duplicate:
        if duplicate is not None:
            # Linux resets a TCP connection when it is connected to AF_UNSPEC.
            nowhere = struct.pack("=H14x", socket.AF_UNSPEC)
            ctypes.CDLL(None).connect(duplicate, nowhere, len(nowhere))


def _sockets(pid: int, state: str) -> list[tuple[int, int]]:
    """Return (descriptor, port) of a process's TCP sockets in a state.

    The port is the peer's, or the socket's own if it listens.
    """
    inodes = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = str(link.readlink())
            if target.startswith("socket:["):
                inodes[target[8:-1]] = int(link.name)
    found = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[3] == state and columns[9] in inodes:
            address = columns[1] if state == _LISTEN else columns[2]
            found.append((inodes[columns[9]], int(address.rpartition(":")[2], 16)))
    return found

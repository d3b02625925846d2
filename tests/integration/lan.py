"""Hosts in network namespaces on one switch, for tests of a cluster over several machines.

Host 0 is the namespace of the test, with an interface to the switch. Every other host shares only
the files with this machine. This requires root and ``ip`` of iproute2.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pytest

__all__ = ["LAN_PREFIX", "Lan", "needs_namespaces"]

LAN_PREFIX = f"198.18.{os.getpid() % 256}."
"""A prefix from the range for benchmarks of networks, which no real network uses.

Each process has its own prefix, because all of them share the namespace of host 0.
"""

MTU = 9000
"""Large frames reduce the work of the switch, which is a Python script."""

_SIOCETHTOOL = 0x8946
_OFFLOADS = (0x17, 0x1F, 0x24, 0x2C)
"""ETHTOOL_STXCSUM, _STSO, _SGSO and _SGRO.

The switch has no hardware that would complete offloaded work.
"""


def _may_make_namespaces() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"fnprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode:
        return False
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return True


needs_namespaces = pytest.mark.skipif(
    not _may_make_namespaces(), reason="hosts are network namespaces: it takes root, and ip"
)


class Lan:
    """A switch and its hosts. Use it with ``with``; it removes everything on exit."""

    def __init__(self, hosts: int) -> None:
        self._tag = f"fn{os.getpid() % 100_000}"
        self._hosts = hosts
        self._switch: subprocess.Popen[str]
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def address(self, host: int) -> str:
        """Return the address of a host."""
        return f"{LAN_PREFIX}{host + 1}"

    def start(
        self, host: int, *arguments: str, environment: dict[str, str], output: IO[str]
    ) -> subprocess.Popen[str]:
        """Start a Python process on a host, with its output in a file."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self._namespace(host), sys.executable, *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def set(
        self, *, delay_ms: float = 0.0, loss: float = 0.0, pulled: tuple[int, ...] = ()
    ) -> None:
        """Set delay each way and share of lost frames, and pull the cables of some hosts."""
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        names = [self._port(host) for host in pulled]
        line = json.dumps({"delay_ms": delay_ms, "loss": loss, "pulled": names})
        self._switch.stdin.write(line + "\n")
        self._switch.stdin.flush()
        assert self._switch.stdout.readline() == "set\n"

    def _build(self) -> None:
        switch = f"{self._tag}s"
        self._add_namespace(switch)
        for host in range(self._hosts):
            outer, inner = self._port(host), f"{self._tag}h{host}"
            where = ["netns", self._namespace(host)] if host else []
            if host:
                self._add_namespace(self._namespace(host))
            _ip("link", "add", outer, "netns", switch, "type", "veth", "peer", inner, *where)
            if not host:
                self._resources.callback(_ip, "link", "delete", inner, check=False)
            into = ("-n", self._namespace(host)) if host else ()
            _ip("-n", switch, "link", "set", outer, "mtu", str(MTU), "up")
            _ip(*into, "addr", "add", f"{self.address(host)}/24", "dev", inner)
            _ip(*into, "link", "set", inner, "mtu", str(MTU), "up")
            if host:
                _ip(*into, "link", "set", "lo", "up")
                code = f"from tests.integration.lan import do_all_in_software as f; f({inner!r})"
                run = ["ip", "netns", "exec", self._namespace(host), sys.executable, "-c", code]
                subprocess.run(run, check=True, cwd=Path(__file__).parents[2])
            else:
                do_all_in_software(inner)
        script = str(Path(__file__).with_name("lan_switch.py"))
        ports = [self._port(host) for host in range(self._hosts)]
        self._switch = subprocess.Popen(
            ["ip", "netns", "exec", switch, sys.executable, "-I", "-S", script, *ports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._resources.callback(self._stop_switch)
        assert self._switch.stdout is not None
        assert self._switch.stdout.readline() == "ready\n"

    def _stop_switch(self) -> None:
        self._switch.communicate()

    def _add_namespace(self, name: str) -> None:
        _ip("netns", "add", name)
        self._resources.callback(_ip, "netns", "delete", name, check=False)

    def _namespace(self, host: int) -> str:
        return f"{self._tag}n{host}"

    def _port(self, host: int) -> str:
        return f"{self._tag}p{host}"


def do_all_in_software(interface: str) -> None:
    """Switch offloading off, so that frames have checksums and their final size."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for offload in _OFFLOADS:
            value = bytearray(struct.pack("II", offload, 0))
            pinned: Any = (ctypes.c_char * len(value)).from_buffer(value)
            place = ctypes.addressof(pinned)
            request = struct.pack("16sP", interface.encode(), place)
            fcntl.ioctl(control, _SIOCETHTOOL, request)


def _ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"ip {' '.join(arguments)}: {done.stderr}")

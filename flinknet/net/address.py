"""Addresses as text: ``host:port``, with an IPv6 host in brackets."""

from __future__ import annotations

import ipaddress

from flinknet.errors import ConfigurationError

__all__ = ["is_loopback", "join_address", "split_address"]


def split_address(address: str) -> tuple[str, int]:
    """Return host and port. Raises ConfigurationError for anything else than ``host:port``."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise ConfigurationError(
            f"{address!r} is not an address: write host:port, as 127.0.0.1:7001"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def join_address(host: str, port: int) -> str:
    """Return ``host:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a host names this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Addresses as text: ``host:port``, with brackets around IPv6 hosts, or a coordinator's URL."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from flinknet.config import TOKEN_VARIABLE
from flinknet.errors import ConfigurationError

__all__ = [
    "host_of",
    "is_any_address",
    "is_coordinator",
    "is_loopback",
    "join_address",
    "reached_at",
    "split_address",
    "with_token",
]


def split_address(address: str) -> tuple[str, int]:
    """Return host and port.

    Raises:
        ConfigurationError: If the text is not ``host:port``.
    """
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
    """Whether a host names only this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_any_address(host: str) -> bool:
    """Whether a listening host stands for every address of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def reached_at(host: str, port: int) -> str:
    """Return ``host:port`` for an advertised host, which may include its own port.

    Raises:
        ConfigurationError: If that port is invalid.
    """
    if _has_port(host):
        return join_address(*split_address(host))
    return join_address(host_of(host), port)


def host_of(advertised: str) -> str:
    """Return an advertised host without its port."""
    host = advertised.rpartition(":")[0] if _has_port(advertised) else advertised
    return host.removeprefix("[").removesuffix("]")


def _has_port(host: str) -> bool:
    return host.count(":") == 1 or "]:" in host


def is_coordinator(directory: str | os.PathLike[str]) -> bool:
    """Whether a name directory is a coordinator's address and not a path."""
    return isinstance(directory, str) and directory.startswith(("http://", "https://"))


def with_token(address: str) -> str:
    """Return a coordinator's address with this process's token, for another process.

    An address that has a token stays as it is. The other process has no token in its environment.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    return address if urlsplit(address).fragment or not token else f"{address}#token={token}"

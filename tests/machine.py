"""Marks that skip tests of features that this machine lacks, with the reason."""

from __future__ import annotations

import socket

import pytest

__all__ = ["needs_ipv6"]


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 loopback")

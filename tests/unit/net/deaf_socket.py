"""A socket whose machine receives nothing any more, as if its cable were cut."""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import Any

__all__ = ["cut"]

_ATTACH_FILTER = 26


def cut(connection: Any) -> None:
    """Drop all packets for a socket before the kernel sees them, so that it acknowledges
    nothing."""
    drop_all = struct.pack("HBBI", 0x06, 0, 0, 0)
    instructions = ctypes.create_string_buffer(drop_all)
    program = struct.pack("HP", 1, ctypes.addressof(instructions))
    connection.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)

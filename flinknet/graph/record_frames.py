"""How a sink sends records to the program that runs its job: frames of pickled tuples.

A frame is a length of eight bytes, big-endian, and the pickle of a tuple whose first element says
what it is (``datastream/program_sink.py``). Pickled, because records come back as the objects of
the program's own classes; the two ends are parts of one job, and nobody else can open the socket
between them.
"""

from __future__ import annotations

import pickle
from io import BufferedIOBase
from typing import Any

from flinknet.graph.pickler import dumps

__all__ = ["frame", "read_frame"]

_LENGTH_BYTES = 8


def frame(*message: Any) -> bytes:
    """Return the bytes of one message. Raises whatever says that a record cannot be pickled."""
    try:
        body = pickle.dumps(message)
    except Exception:  # A class of the program's own file travels by value.
        body = dumps(message)
    return len(body).to_bytes(_LENGTH_BYTES) + body


def read_frame(file: BufferedIOBase) -> tuple[Any, ...] | None:
    """Wait for the next message and return it, or None where there is no whole one any more."""
    head = file.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(head)
    body = file.read(size)
    if len(body) < size:
        return None
    message: tuple[Any, ...] = pickle.loads(body)  # noqa: S301 - of the own job
    return message

"""Frames in which a sink sends records to the program that runs its job.

A frame is a length of eight bytes, big-endian, followed by the pickle of a tuple. The first element
of the tuple is the kind of message (``datastream/program_sink.py``). Pickle is used because records
come back as objects of the program's own classes. Both ends are parts of one job, and no other
process can open the socket between them.
"""

from __future__ import annotations

import pickle
from io import BufferedIOBase
from typing import Any

from flinknet.graph.pickler import dumps

__all__ = ["frame", "read_frame"]

_LENGTH_BYTES = 8


def frame(*message: Any) -> bytes:
    """Return the bytes of one message. Raises the error of a record that cannot be pickled."""
    try:
        body = pickle.dumps(message)
    except Exception:  # A class of the program's own file must be pickled by value.
        body = dumps(message)
    return len(body).to_bytes(_LENGTH_BYTES) + body


def read_frame(file: BufferedIOBase) -> tuple[Any, ...] | None:
    """Wait for the next message and return it, or None if no complete message follows."""
    head = file.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(head)
    body = file.read(size)
    if len(body) < size:
        return None
    message: tuple[Any, ...] = pickle.loads(body)  # noqa: S301 - of the own job
    return message

"""Events: what stands between records, and the bodies of those that ``SPEC.md`` lists."""

from __future__ import annotations

from typing import NamedTuple

from flinknet.buffer.buffer import DataType
from flinknet.errors import RemoteProtocolError

__all__ = [
    "END_OF_PARTITION",
    "Event",
    "check_end_of_partition",
    "decode_end_of_data",
    "encode_end_of_data",
]


class Event(NamedTuple):
    """What stands between two records: how it travels, and its body, one msgpack array.

    Of its type depends whether it overtakes what is queued before it (``has_priority``), and
    whether its channel delivers nothing more until its reader has the consumption resumed
    (``is_blocking_upstream``).
    """

    data_type: DataType
    body: bytes


END_OF_PARTITION = b"\x90"
"""``[]``."""

_DRAIN = b"\x91\x01"
_NO_DRAIN = b"\x91\x00"


def encode_end_of_data(*, drain: bool) -> bytes:
    """``[1]``: the job has read all of its input (Flink's StopMode.DRAIN); ``[0]``: it was stopped
    before."""
    return _DRAIN if drain else _NO_DRAIN


def decode_end_of_data(body: bytes) -> bool:
    """Return ``drain``. Raises RemoteProtocolError for anything else."""
    if body not in (_DRAIN, _NO_DRAIN):
        raise RemoteProtocolError(
            f"the body of an END_OF_DATA is {body[:8].hex()}, not 9100 or 9101"
        )
    return body == _DRAIN


def check_end_of_partition(body: bytes) -> None:
    """Raise RemoteProtocolError for anything but ``[]``."""
    if body != END_OF_PARTITION:
        raise RemoteProtocolError(f"the body of an END_OF_PARTITION is {body[:8].hex()}, not 90")

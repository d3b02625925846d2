"""The bodies of the events: one msgpack array each, as ``SPEC.md`` lists them."""

from __future__ import annotations

from flinknet.errors import RemoteProtocolError

__all__ = [
    "END_OF_PARTITION",
    "check_end_of_partition",
    "decode_end_of_data",
    "encode_end_of_data",
]

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

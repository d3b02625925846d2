"""What programs import from ``pyflink.datastream.data_stream``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.compatibility.pyflink_differences import not_here
from flinknet.datastream import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    WindowedStream,
)

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]

if not TYPE_CHECKING:  # or every name would pass for one of its own
    __getattr__ = not_here(__name__)

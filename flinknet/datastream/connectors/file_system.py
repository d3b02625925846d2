"""What programs import from ``pyflink.datastream.connectors.file_system``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.compatibility.pyflink_differences import not_here
from flinknet.datastream import (
    FileSink,
    FileSource,
    FileSourceBuilder,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)

__all__ = [
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]

if not TYPE_CHECKING:  # or every name would pass for one of its own
    __getattr__ = not_here(__name__)

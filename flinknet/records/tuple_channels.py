"""Channels of tuples found without ``select``: none in plain Python.

``tuple_channels.pyx`` finds the channel of a tuple without a call of the key function. In plain
Python ``select`` is a single call itself, so nothing is gained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from flinknet.records.remembered_channels import RememberedChannels

__all__ = ["TupleChannels"]


class TupleChannels:
    """See ``tuple_channels.pyx``."""

    @classmethod
    def of(
        cls,
        key: Callable[[Any], Any],
        max_parallelism: int,
        channels: int,
        remembered: RememberedChannels,
    ) -> Self | None:
        """Return None: ``select`` chooses each channel."""
        return None

"""The channels of tuples that are found without ``select``: none, but where that is compiled.

``tuple_channels.pyx`` finds the channel of a tuple without a call of the key's function. In plain
Python that call is all that ``select`` takes, so there is no form of it.
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

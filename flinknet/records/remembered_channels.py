"""Cache of the channels of keys.

Theory of operation. Computing the channel of a key costs several times a look-up, and real keys
repeat. The channels are held in one dict, and the memory of its keys is counted. When a new key
would exceed the limit, all keys are forgotten, and the keys that are still in use return. No order
of use is kept: keys are seldom dropped, and the order would cost time at every look-up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from flinknet.records.key_normalization import remembered_bytes

__all__ = ["ENTRY_BYTES", "RememberedChannels"]

ENTRY_BYTES = 96
"""Memory per entry of a growing dict."""


class RememberedChannels:
    """Channels of records by key.

    Args:
        key: Returns the key of a record.
        owner: Returns the channel of a key. Raises SerializationError for an invalid key.
        memory_bytes: The memory that the remembered keys may take.
    """

    __slots__ = ("_channel_of", "_key", "_owner", "_remembered_bytes", "memory_bytes")

    def __init__(
        self, key: Callable[[Any], Any], owner: Callable[[Any], int], memory_bytes: int
    ) -> None:
        self._key = key
        self._owner = owner
        self.memory_bytes = memory_bytes
        self._channel_of: dict[Any, int] = {}
        self._remembered_bytes = 0

    def select(self, record: Any) -> int:
        """Return the channel of a record."""
        key = self._key(record)
        try:
            return self._channel_of[key]
        except Exception:  # a new key, or one without a hash: a list, a writable memoryview
            return self._look_up(key)

    def channel_of_text(self, key: str) -> int:
        """Return the channel of a remembered text; -1 for another text."""
        return self._channel_of.get(key, -1)

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return the shares that ``select`` would choose, without a Python call per record.

        If that fails, ``select`` is called from the first record on. It fails for a key that is new
        or has no hash, and for an error of the key function; a StopIteration of that function would
        only end the ``map``.
        """
        shares: dict[int, list[Any]] = defaultdict(list)
        channels = map(self._channel_of.__getitem__, map(self._key, records))
        try:
            for record, channel in zip(records, channels, strict=True):
                shares[channel].append(record)
        except Exception:
            shares.clear()
            for record in records:
                shares[self.select(record)].append(record)
        return shares

    def forget(self) -> None:
        """Forget all keys; later keys may have other channels."""
        self._channel_of.clear()
        self._remembered_bytes = 0

    def keys(self) -> list[Any]:
        """Return the remembered keys, oldest first."""
        return list(self._channel_of)

    def _look_up(self, key: Any) -> int:
        channel = self._owner(key)
        size = remembered_bytes(key)
        if size is not None:
            self._remember(key, channel, size + ENTRY_BYTES)
        return channel

    def _remember(self, key: Any, channel: int, size: int) -> None:
        if self._remembered_bytes + size > self.memory_bytes:
            self.forget()
        if size <= self.memory_bytes:
            self._channel_of[key] = channel
            self._remembered_bytes += size

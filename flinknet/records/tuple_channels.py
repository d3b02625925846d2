"""The channels of tuples that are keyed by one of their elements, found without calling anything of
the user's.

Theory of operation. ``key_by(itemgetter(0))`` on tuples is what most keyed exchanges are. What the
function does to an exact tuple is known then, so it need not be called; an integer's key group is
computed, which takes less than to remember it; text is looked up among the keys that are
remembered. Neither runs code of the user's, nor fails: for everything else there is ``select``.
In C all of that takes a third of a call's time (``tuple_channels.pyx``); in plain Python a call is
all that ``select`` takes, so this form is for those who change the other.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, Self

from flinknet.records.conversion import Conversion, ConvertedKey
from flinknet.records.key_groups import key_group, operator_index
from flinknet.records.remembered_channels import RememberedChannels

__all__ = ["NOT_KNOWN", "TupleChannels"]

NOT_KNOWN: Final = -1

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class TupleChannels:
    """The channel of a tuple by its element ``index``, as a hash partitioner chooses it.

    Args:
        index: the element that is the key.
        max_parallelism: as many key groups there are.
        channels: as many channels there are.
        remembered: where other keys than integers may be found.
        conversion: what makes a key what its type says, if one is declared.
    """

    __slots__ = ("_channels", "_conversion", "_index", "_max_parallelism", "_remembered")

    def __init__(
        self,
        index: int,
        max_parallelism: int,
        channels: int,
        remembered: RememberedChannels,
        conversion: Conversion | None = None,
    ) -> None:
        self._conversion = conversion
        self._index = index
        self._max_parallelism = max_parallelism
        self._channels = channels
        self._remembered = remembered

    @classmethod
    def of(
        cls,
        key: Callable[[Any], Any],
        max_parallelism: int,
        channels: int,
        remembered: RememberedChannels,
    ) -> Self | None:
        """Return the channels by a key's function; None unless that takes one element."""
        selector, conversion = key, None
        if isinstance(key, ConvertedKey):
            selector, conversion = key.key, key.conversion
        if type(selector) is not itemgetter:
            return None
        items = selector.__reduce__()[1]
        if len(items) != 1 or type(items[0]) is not int or items[0] < 0:
            return None
        return cls(items[0], max_parallelism, channels, remembered, conversion)

    def channel(self, record: Any) -> int:
        """Return the channel of a record, NOT_KNOWN for one that ``select`` is to be asked for."""
        if type(record) is not tuple or self._index >= len(record):
            return NOT_KNOWN
        key = record[self._index]
        if self._conversion is not None and not self._conversion.fits(key):
            return NOT_KNOWN
        if type(key) is int and _INT64_MIN <= key <= _INT64_MAX:
            group = key_group(key, self._max_parallelism)
            return operator_index(group, self._max_parallelism, self._channels)
        if type(key) is str:
            return self._remembered.channel_of_text(key)
        return NOT_KNOWN

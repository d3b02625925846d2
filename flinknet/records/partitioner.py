"""Partitioners: which subpartition a record goes to (Flink's StreamPartitioner and
ChannelSelector).

A partitioner is made once per writing subtask and set up with the number of channels. ``select``
is called for every record, so it is a plain function chosen at set-up, without checks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Protocol

from flinknet.config import REMEMBERED_KEYS_BYTES
from flinknet.errors import ConfigurationError
from flinknet.records.key_groups import check_key_groups, key_group, operator_index
from flinknet.records.remembered_channels import RememberedChannels
from flinknet.records.round_robin import round_robin
from flinknet.records.tuple_channels import TupleChannels

__all__ = [
    "AdaptiveRebalancePartitioner",
    "AdaptiveRescalePartitioner",
    "BroadcastPartitioner",
    "CustomPartitioner",
    "ForwardPartitioner",
    "GlobalPartitioner",
    "HashPartitioner",
    "OutputQueue",
    "Partitioner",
    "RebalancePartitioner",
    "RescalePartitioner",
    "ShufflePartitioner",
]

ADAPTIVE_CANDIDATES = 4
"""Channels that an adaptive partitioner compares. Flink:
taskmanager.network.adaptive-partitioner.max-traverse-size (4)."""


class OutputQueue(Protocol):
    """What a partitioner may know of a channel: a subpartition, seen from above."""

    released: bool

    @property
    def load(self) -> int:
        """Buffers that hold something which is not yet taken, with the open one, and of as many
        their bytes, as one number to compare; O(1)."""


class Partitioner(ABC):
    """Chooses a channel for each record."""

    is_broadcast = False
    is_pointwise = False
    looks_at_queues = False
    """Whether a choice depends on what was written just before, so that it cannot be made for many
    records ahead."""
    selects_first = False
    """Whether every record goes to the first channel, so that ``select`` need not be asked."""
    cuts_records = False
    """Whether a record may go to several channels, a part to each, which is a record of its own:
    ``cut`` is asked, not ``select``."""
    channels = 0
    queues: Sequence[OutputQueue] = ()
    tuple_channels: TupleChannels | None = None
    """What may be asked before ``select``, for a tuple, where it is compiled."""

    def __init_subclass__(cls) -> None:
        """What is said about ``select`` is about the one that it was said with."""
        if "select" in vars(cls):
            if "divide" not in vars(cls):
                cls.divide = Partitioner.divide  # type: ignore[method-assign]
            cls.selects_first = vars(cls).get("selects_first", False)

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Learn the number of channels and which subtask writes, before the first record."""
        self.channels = channels

    def observe(self, queues: Sequence[OutputQueue]) -> None:
        """Learn the channels' queues, from the writer."""
        self.queues = queues

    def remember_at_most(self, memory_bytes: int) -> None:  # noqa: B027  most remember nothing
        """Learn what the keys whose channel it remembers may take, from the writer, before the
        first record."""

    @abstractmethod
    def select(self, record: Any) -> int:
        """Return the channel, 0 to ``channels - 1``."""

    def cut(self, record: Any) -> dict[int, Any]:
        """Return the parts of a record by channel, if this partitioner ``cuts_records``."""
        raise AssertionError(f"{type(self).__name__} does not cut records")

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return the channels' shares of many records, in order, as ``select`` for each would."""
        shares: dict[int, list[Any]] = defaultdict(list)
        select = self.select
        for record in records:
            shares[select(record)].append(record)
        return shares


class ForwardPartitioner(Partitioner):
    """To the one channel there is: subtask i to subtask i."""

    is_pointwise = True
    selects_first = True

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Insist on one channel."""
        if channels != 1:
            raise ConfigurationError(
                f"a forward exchange has {channels} channels: both sides need the same parallelism"
            )
        super().setup(channels)

    def select(self, record: Any) -> int:
        """Return 0."""
        return 0

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return all of them."""
        return {0: records}


class GlobalPartitioner(Partitioner):
    """Everything to the first subtask."""

    selects_first = True

    def select(self, record: Any) -> int:
        """Return 0."""
        return 0

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return all of them."""
        return {0: records}


class RebalancePartitioner(Partitioner):
    """Round robin over all channels; each subtask starts at its own, so that they do not march in
    step."""

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Start where this subtask's index says."""
        super().setup(channels)
        self._turns = round_robin(channels, subtask_index % channels)
        if type(self).select is RebalancePartitioner.select:
            # All in C, and known to a compiled route; the record is what next would return if the
            # turns had an end.
            self.select = partial(next, self._turns)  # type: ignore[method-assign]
            self.selects_first = channels == 1

    def select(self, record: Any) -> int:
        """Return the next channel; replaced by a faster function that does."""
        return next(self._turns)

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return every nth record for each of the n channels."""
        channels = self.channels
        turns = list(islice(self._turns, len(records)))
        return {channel: records[place::channels] for place, channel in enumerate(turns[:channels])}


class RescalePartitioner(RebalancePartitioner):
    """Round robin over a local group of subtasks: the channels are those of the group alone."""

    is_pointwise = True

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Start at the first channel, as Flink does."""
        super().setup(channels)


class AdaptiveRebalancePartitioner(Partitioner):
    """To the channel with the fewest queued buffers among a few, so that a slow consumer gets less
    (Flink's AdaptiveLoadBasedRecordWriter).

    From the one after the last choice on, up to ``candidates`` channels are looked at: the first
    with no queued buffer is chosen, else the one with the fewest, of equal ones the one with the
    fewest bytes, of those the first. Bytes alone would mislead: with debloating, a queue of small
    buffers for a slow consumer has fewer than the one large buffer that a fast one fills. What is
    queued is what waits at the producer, so a slow consumer in another worker is seen once its
    credit is used up. A channel whose consumer has gone is no candidate, though it is always empty.
    """

    looks_at_queues = True
    _next = 0

    def __init__(self, candidates: int = ADAPTIVE_CANDIDATES) -> None:
        if candidates < 2:
            raise ConfigurationError(
                f"an adaptive partitioner with {candidates} candidates has nothing to compare: "
                f"choose 2 or more"
            )
        self._candidates = candidates

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Start where this subtask's index says."""
        super().setup(channels)
        self._next = subtask_index % channels

    def select(self, record: Any) -> int:
        """Return the least loaded candidate; the next channel in turn if no consumer is left."""
        channels, queues = self.channels, self.queues
        chosen = channel = self._next
        least = inf
        candidates = self._candidates
        for _ in range(channels):
            queue = queues[channel]
            if not queue.released:
                load = queue.load
                if load < least:
                    chosen, least = channel, load
                candidates -= 1
                if not load or not candidates:
                    break
            channel = channel + 1 if channel + 1 < channels else 0
        self._next = chosen + 1 if chosen + 1 < channels else 0
        return chosen


class AdaptiveRescalePartitioner(AdaptiveRebalancePartitioner):
    """The same within a local group of subtasks."""

    is_pointwise = True

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Start at the first channel, as rescale does."""
        super().setup(channels)


class ShufflePartitioner(Partitioner):
    """To a random channel; the source of randomness is given, so that a run can be repeated."""

    def __init__(self, randrange: Callable[[int], int]) -> None:
        self._randrange = randrange

    def select(self, record: Any) -> int:
        """Return any channel."""
        return self._randrange(self.channels)


class BroadcastPartitioner(Partitioner):
    """To every channel; the writer serialises once and never asks for a single one."""

    is_broadcast = True

    def select(self, record: Any) -> int:
        """Broadcasting does not select."""
        raise AssertionError("a broadcast exchange does not select a channel")


class HashPartitioner(Partitioner):
    """By key group of the record's key; equal keys always meet at the same subtask.

    ``key`` must say the same of a record in every process that writes: ``hash`` of a text does so
    only where all were started with one PYTHONHASHSEED, as the workers of a cluster are.
    What may be a key says ``key_forms.py``. Raises SerializationError for what is none.
    """

    def __init__(self, key: Callable[[Any], Any], max_parallelism: int = 128) -> None:
        self._key = key
        self._max_parallelism = max_parallelism
        self._remembered = RememberedChannels(key, self._owner, REMEMBERED_KEYS_BYTES)

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Check that there is a key group for every channel."""
        check_key_groups(channels, self._max_parallelism)
        super().setup(channels)
        self._remembered.forget()
        if type(self).select is HashPartitioner.select:
            self.select = self._remembered.select  # type: ignore[method-assign]
            self.tuple_channels = TupleChannels.of(
                self._key, self._max_parallelism, channels, self._remembered
            )

    def remember_at_most(self, memory_bytes: int) -> None:
        """Pass it on."""
        self._remembered.memory_bytes = memory_bytes

    def select(self, record: Any) -> int:
        """Return the owner of the key's group; replaced by the function that it calls."""
        return self._remembered.select(record)

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return what ``select`` would for each, without a call for each."""
        return self._remembered.divide(records)

    def key_group_of(self, record: Any) -> int:
        """Return the key group of a record."""
        return key_group(self._key(record), self._max_parallelism)

    def _owner(self, key: Any) -> int:
        group = key_group(key, self._max_parallelism)
        return operator_index(group, self._max_parallelism, self.channels)


class CustomPartitioner(Partitioner):
    """By a function of the key and the number of channels (Flink's partitionCustom); both functions
    must say the same in every process that writes, as ``HashPartitioner`` explains."""

    def __init__(self, function: Callable[[Any, int], int], key: Callable[[Any], Any]) -> None:
        self._function = function
        self._key = key

    def select(self, record: Any) -> int:
        """Return the function's choice. Raises ConfigurationError if it is out of range."""
        channel = self._function(self._key(record), self.channels)
        if not 0 <= channel < self.channels:
            raise ConfigurationError(
                f"a custom partitioner chose channel {channel} of {self.channels}: return 0 to "
                f"{self.channels - 1}"
            )
        return channel

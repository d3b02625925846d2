"""Partitioners: choose the subpartition of each record.

They correspond to Flink's StreamPartitioner and ChannelSelector. Each writing subtask has its own
partitioner, which is set up with the number of channels. ``select`` is called for every record, so
it is a plain function that is chosen at set-up and makes no checks.
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
"""Number of channels that an adaptive partitioner compares.

Flink: taskmanager.network.adaptive-partitioner.max-traverse-size (4).
"""


class OutputQueue(Protocol):
    """View of a subpartition for a partitioner."""

    released: bool

    @property
    def load(self) -> int:
        """Queued buffers and bytes as one comparable number; O(1).

        Buffers with untaken data count first, including the open buffer. Bytes decide between equal
        numbers of buffers.
        """


class Partitioner(ABC):
    """Selector of the channel of each record."""

    is_broadcast = False
    is_pointwise = False
    looks_at_queues = False
    """Whether a choice depends on the records written before; it then cannot be made ahead."""
    selects_first = False
    """Whether every record goes to the first channel, so that ``select`` is not called."""
    cuts_records = False
    """Whether a record may be split into parts for several channels, each a record of its own.

    ``cut`` is then called instead of ``select``.
    """
    channels = 0
    queues: Sequence[OutputQueue] = ()
    tuple_channels: TupleChannels | None = None
    """Compiled look-up that is tried before ``select`` for a tuple, if there is one."""

    def __init_subclass__(cls) -> None:
        """Reset the attributes that describe ``select`` if a subclass overrides it."""
        if "select" in vars(cls):
            if "divide" not in vars(cls):
                cls.divide = Partitioner.divide  # type: ignore[method-assign]
            cls.selects_first = vars(cls).get("selects_first", False)

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Set the number of channels and the writing subtask, before the first record."""
        self.channels = channels

    def observe(self, queues: Sequence[OutputQueue]) -> None:
        """Receive the channels' queues from the writer."""
        self.queues = queues

    def remember_at_most(self, memory_bytes: int) -> None:  # noqa: B027  most remember nothing
        """Limit the memory for keys with remembered channels.

        The writer calls this before the first record.
        """

    @abstractmethod
    def select(self, record: Any) -> int:
        """Return the channel, 0 to ``channels - 1``."""

    def cut(self, record: Any) -> dict[int, Any]:
        """Return the parts of a record by channel, if this partitioner ``cuts_records``."""
        raise AssertionError(f"{type(self).__name__} does not split records")

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return the channels' shares of the records, in order, as ``select`` would choose."""
        shares: dict[int, list[Any]] = defaultdict(list)
        select = self.select
        for record in records:
            shares[select(record)].append(record)
        return shares


class ForwardPartitioner(Partitioner):
    """Partitioner to the only channel: subtask i to subtask i."""

    is_pointwise = True
    selects_first = True

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Raise ConfigurationError unless there is exactly one channel."""
        if channels != 1:
            raise ConfigurationError(
                f"a forward exchange has {channels} channels: both sides need the same parallelism"
            )
        super().setup(channels)

    def select(self, record: Any) -> int:
        """Return 0."""
        return 0

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return all records for channel 0."""
        return {0: records}


class GlobalPartitioner(Partitioner):
    """Partitioner of all records to the first subtask."""

    selects_first = True

    def select(self, record: Any) -> int:
        """Return 0."""
        return 0

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return all records for channel 0."""
        return {0: records}


class RebalancePartitioner(Partitioner):
    """Round robin over all channels.

    Each subtask starts at its own channel, so that the subtasks do not move in step.
    """

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Start at the channel of this subtask's index."""
        super().setup(channels)
        self._turns = round_robin(channels, subtask_index % channels)
        if type(self).select is RebalancePartitioner.select:
            # This function is implemented in C, and a compiled route recognises it. The record is
            # passed as the default of ``next``, which is never returned: the iterator has no end.
            self.select = partial(next, self._turns)  # type: ignore[method-assign]
            self.selects_first = channels == 1

    def select(self, record: Any) -> int:
        """Return the next channel; ``setup`` replaces this by a faster function."""
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
    """Partitioner to the least loaded of a few channels, so that a slow consumer receives less.

    It corresponds to Flink's AdaptiveLoadBasedRecordWriter. It compares up to ``candidates``
    channels, starting after the last choice. It chooses the first channel without a queued buffer,
    else the one with the fewest queued buffers, then with the fewest bytes, then the first.

    Bytes alone would mislead. With debloating, a queue of small buffers for a slow consumer has
    fewer bytes than the one large buffer that a fast consumer fills. Only the producer's queue is
    counted, so a slow consumer in another worker is noticed once its credit is used up. A channel
    with a released consumer is no candidate, although its queue is always empty.
    """

    looks_at_queues = True
    _next = 0

    def __init__(self, candidates: int = ADAPTIVE_CANDIDATES) -> None:
        if candidates < 2:
            raise ConfigurationError(
                f"an adaptive partitioner with {candidates} candidates cannot compare queues: "
                "choose 2 or more"
            )
        self._candidates = candidates

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Start at the channel of this subtask's index."""
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
                if not load or not candidates:  # no channel has less than an empty queue
                    break
            channel = channel + 1 if channel + 1 < channels else 0
        self._next = chosen + 1 if chosen + 1 < channels else 0
        return chosen


class AdaptiveRescalePartitioner(AdaptiveRebalancePartitioner):
    """Adaptive rebalancing within a local group of subtasks."""

    is_pointwise = True

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Start at the first channel, as rescale does."""
        super().setup(channels)


class ShufflePartitioner(Partitioner):
    """Partitioner to a random channel.

    The caller provides the random source, so that a run can be repeated.
    """

    def __init__(self, randrange: Callable[[int], int]) -> None:
        self._randrange = randrange

    def select(self, record: Any) -> int:
        """Return a random channel."""
        return self._randrange(self.channels)


class BroadcastPartitioner(Partitioner):
    """Partitioner to every channel; the writer serialises once and never calls ``select``."""

    is_broadcast = True

    def select(self, record: Any) -> int:
        """Raise AssertionError: a broadcast exchange does not select a channel."""
        raise AssertionError("a broadcast exchange does not select a channel")


class HashPartitioner(Partitioner):
    """Partitioner by the key group of the record's key; equal keys reach the same subtask.

    ``key`` must return equal keys in every process that writes. ``hash`` of a text does so only if
    all processes were started with one PYTHONHASHSEED, as the workers of a cluster are.
    ``key_normalization.py`` lists the accepted keys. ``select`` raises SerializationError for any
    other.
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
        # A subclass that overrides ``select`` keeps its own.
        if type(self).select is HashPartitioner.select:
            self.select = self._remembered.select  # type: ignore[method-assign]
            self.tuple_channels = TupleChannels.of(
                self._key, self._max_parallelism, channels, self._remembered
            )

    def remember_at_most(self, memory_bytes: int) -> None:
        """Limit the memory of the remembered channels."""
        self._remembered.memory_bytes = memory_bytes

    def select(self, record: Any) -> int:
        """Return the owner of the key's group; ``setup`` replaces this by the inner function."""
        return self._remembered.select(record)

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return the shares that ``select`` would choose, without a call per record."""
        return self._remembered.divide(records)

    def key_group_of(self, record: Any) -> int:
        """Return the key group of a record."""
        return key_group(self._key(record), self._max_parallelism)

    def _owner(self, key: Any) -> int:
        group = key_group(key, self._max_parallelism)
        return operator_index(group, self._max_parallelism, self.channels)


class CustomPartitioner(Partitioner):
    """Partitioner by a function of the key and the number of channels (Flink's partitionCustom).

    Both functions must return the same in every process that writes; see ``HashPartitioner``.
    """

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

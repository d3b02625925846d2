"""The partition registry: gives consumers access to a worker's result partitions.

This is Flink's ResultPartitionManager. It knows each partition from registration to release, by the
16-byte id on the wire. A request for a partition that is not registered yet *waits*. It ends with
the registration, its deadline, the end of this worker, or its cancellation by the consumer.
Producers and consumers can therefore start in any order, without a storm of retries while a job is
deployed.

A *topic* stands for any number of partitions. Its producer makes a new partition for each request
and ignores the subpartition in it. A partition may *name* the workers that consume its
subpartitions. A request from another worker is never answered, not even after the release. It waits
as if the partition did not exist.

Time is passed in as ``now``, or read from ``clock``, which the shell sets. It never goes back, so
requests expire in the order in which they began to wait. ``next_deadline`` tells when ``expire``
and ``take_overdue`` are due. ``on_waiting`` is called when a request begins to wait.
"""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from typing import NamedTuple, Protocol

from flinknet.buffer.view import AvailabilityListener, SubpartitionView
from flinknet.errors import (
    KeptError,
    LocalProtocolError,
    PartitionNotFoundError,
    PartitionRequestTimeoutError,
)
from flinknet.partition.result_partition import ResultPartition, released_error
from flinknet.texts import text_of

__all__ = [
    "PartitionRegistry",
    "PartitionRequester",
    "wire_partition_id",
]

log = logging.getLogger("flinknet.partition")

_TEXT_CHARACTERS_MAX = 1_000
"""Maximum length of a remembered error text; about as much crosses the network."""

WIRE_ID_BYTES = 16


def wire_partition_id(partition_id: str) -> bytes:
    """Return the 16-byte wire id of a partition's name."""
    return sha256(partition_id.encode()).digest()[:WIRE_ID_BYTES]


class PartitionRequester(AvailabilityListener, Protocol):
    """A reader that requests a view and may have to wait for it."""

    def on_view_created(self, view: SubpartitionView) -> None:
        """Take the view of a registered partition; may be called inside the registration."""

    def on_request_failed(self, cause: BaseException) -> None:
        """Handle that the request failed: not found in time, released or failed."""


def _keep_no_time() -> None:
    """Do nothing: the owner of the registry calls ``expire`` without being asked."""


@dataclass(slots=True)
class _WaitingRequest:
    wire_id: bytes
    subpartition: int
    requester: PartitionRequester
    consumer: str
    since: float


class _EndedPartition(NamedTuple):
    """A released or failed partition, remembered so that a late request gets its cause at once."""

    failure: KeptError | None
    since: float
    consumers: frozenset[str] | None
    """Workers that may learn of the release, None for any. The set stays small with many
    subpartitions."""


class PartitionRegistry:
    """Registered partitions, and the requests that wait for them.

    Args:
        request_timeout_s: Time until a waiting request fails; 0 for no limit.
        notice_s: Time until a waiting request is overdue; 0 for never.
        ended_max: Number of released partitions that are remembered.
        ended_s: Time for which each of them is remembered.
    """

    def __init__(
        self,
        request_timeout_s: float,
        notice_s: float = 0.0,
        *,
        ended_max: int = 10_000,
        ended_s: float = 600.0,
    ) -> None:
        self._request_timeout_s = request_timeout_s or float("inf")
        self._notice_s = notice_s or float("inf")
        self._last_notice = float("-inf")
        self._partitions: dict[bytes, ResultPartition] = {}
        # Flink's manager forgets released partitions immediately. Its consumers ask the coordinator
        # for the state of their producer, which programs without a coordinator cannot do.
        self._ended: OrderedDict[bytes, _EndedPartition] = OrderedDict()
        self._ended_max = ended_max
        self._ended_s = ended_s
        self.clock: Callable[[], float] = float
        self._consumers: dict[bytes, tuple[str, ...]] = {}
        """Worker of each subpartition, for partitions that name their consumers."""
        self._topics: dict[bytes, Callable[[], ResultPartition]] = {}
        # An OrderedDict finds its first entry in constant time, even after many deletions in front.
        self._waiting: OrderedDict[int, _WaitingRequest] = OrderedDict()
        self._waiting_for: dict[bytes, dict[int, _WaitingRequest]] = {}
        self._not_overdue: OrderedDict[int, _WaitingRequest] = OrderedDict()
        # A callback, so that reads of a socket need not ask for a new deadline.
        self.on_waiting: Callable[[], None] = _keep_no_time

    def register(self, partition: ResultPartition, consumers: Sequence[str] | None = None) -> None:
        """Register a partition, and answer the requests that wait for it.

        ``consumers`` names the worker of each subpartition; by default, any worker may consume it.
        """
        wire_id = self._free_id(partition.partition_id)
        self._partitions[wire_id] = partition
        if consumers is not None:
            self._consumers[wire_id] = tuple(consumers)
        partition.when_released(self._forget)
        log.debug("partition %s registered", partition.partition_id)
        for waiting in list(self._waiting_for.get(wire_id, {}).values()):
            if self._is_granted(wire_id, waiting.subpartition, waiting.consumer):
                self.cancel(waiting.requester)
                self._answer(partition, waiting.subpartition, waiting.requester)

    def register_topic(self, name: str, join: Callable[[], ResultPartition]) -> None:
        """Answer each request for a name with subpartition 0 of a partition made by ``join``.

        Requests that already wait for the name are answered first.
        """
        wire_id = self._free_id(name)
        self._topics[wire_id] = join
        for waiting in list(self._waiting_for.get(wire_id, {}).values()):
            self.cancel(waiting.requester)
            self._join(join, waiting.requester)

    def _free_id(self, name: str) -> bytes:
        """Return the wire id of a new name.

        Raises:
            LocalProtocolError: If the name is in use.
        """
        wire_id = wire_partition_id(name)
        # A topic would take the readers of a partition with the same name.
        if wire_id in self._partitions or wire_id in self._topics:
            raise LocalProtocolError(
                f"{name} is already registered in this worker: names must be unique while "
                "they are in use"
            )
        # The name is in use again, so late requests must not get the earlier cause.
        self._ended.pop(wire_id, None)
        return wire_id

    def forget_topic(self, name: str, failure: KeptError | None = None) -> None:
        """Let requests for a topic wait again, or refuse them if its writer failed. Idempotent."""
        wire_id = wire_partition_id(name)
        self._topics.pop(wire_id, None)
        if failure is not None:
            self._remember(wire_id, failure, None)

    def _join(self, join: Callable[[], ResultPartition], requester: PartitionRequester) -> None:
        try:
            partition = join()
        except Exception as cause:
            requester.on_request_failed(cause)
        else:
            self._answer(partition, 0, requester)

    def request(
        self,
        wire_id: bytes,
        subpartition: int,
        requester: PartitionRequester,
        now: float,
        *,
        consumer: str = "",
    ) -> bool:
        """Answer through ``requester``, now or when the partition is registered or the wait ends.

        ``consumer`` is the id of the requesting worker. Returns whether a subpartition of a
        registered partition was granted. This happens once per subpartition, while a peer may
        repeat all other requests as often as it likes.
        """
        partition, ended = self._partitions.get(wire_id), self._find_ended(wire_id, now)
        if (join := self._topics.get(wire_id)) is not None:
            self._join(join, requester)
        elif partition is not None and self._is_granted(wire_id, subpartition, consumer):
            return self._answer(partition, subpartition, requester)
        # Other workers must not learn that the partition has existed.
        elif ended is not None and (ended.consumers is None or consumer in ended.consumers):
            kept = ended.failure
            requester.on_request_failed(kept.error() if kept else released_error("the partition"))
        else:
            waiting = _WaitingRequest(wire_id, subpartition, requester, consumer, now)
            key = id(requester)  # unique while the entry refers to the requester
            self._waiting[key] = self._not_overdue[key] = waiting
            self._waiting_for.setdefault(wire_id, {})[key] = waiting
            log.debug("%s waits for its partition", requester)
            self.on_waiting()
        return False

    def _is_granted(self, wire_id: bytes, subpartition: int, consumer: str) -> bool:
        named = self._consumers.get(wire_id)
        return named is None or (subpartition < len(named) and named[subpartition] == consumer)

    def cancel(self, requester: PartitionRequester) -> None:
        """Cancel a waiting request; do nothing if it does not wait."""
        key = id(requester)
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return
        self._not_overdue.pop(key, None)
        same = self._waiting_for[waiting.wire_id]
        del same[key]
        if not same:
            del self._waiting_for[waiting.wire_id]

    def next_deadline(self) -> float | None:
        """Return when the next waiting request expires or is overdue, or None."""
        deadline = float("inf")
        if self._waiting:
            deadline = _first(self._waiting).since + self._request_timeout_s
        if self._not_overdue:
            deadline = min(deadline, self._next_notice())
        return deadline if deadline < float("inf") else None

    def _next_notice(self) -> float:
        """Return the time of the next notice; requests that begin in quick succession share it."""
        return max(_first(self._not_overdue).since, self._last_notice) + self._notice_s

    def expire(self, now: float, at_most: int = sys.maxsize) -> None:
        """Fail up to ``at_most`` requests that are past their deadline.

        If more are left, ``next_deadline`` is in the past.
        """
        timeout_s = self._request_timeout_s
        while at_most and self._waiting and _first(self._waiting).since + timeout_s <= now:
            at_most -= 1
            self._give_up(
                _first(self._waiting).requester,
                PartitionRequestTimeoutError(
                    f"the partition was not registered within {timeout_s:g} s "
                    f"(rendezvous_timeout_ms): is the producer running, and is the name right?"
                ),
            )

    def take_overdue(self, now: float) -> list[PartitionRequester]:
        """Return the requests that have waited long enough for a warning, each only once."""
        if not self._not_overdue or self._next_notice() > now:
            return []
        self._last_notice = now
        values = self._not_overdue.values()
        overdue = list(takewhile(lambda waiting: waiting.since + self._notice_s <= now, values))
        for waiting in overdue:
            del self._not_overdue[id(waiting.requester)]
        return [waiting.requester for waiting in overdue]

    def close(self) -> None:
        """Fail every waiting request, because no partition will be registered any more."""
        while self._waiting:
            self._give_up(
                _first(self._waiting).requester,
                PartitionNotFoundError(
                    "the worker was closed before the partition was registered there: start its "
                    "producer again, or check the name"
                ),
            )

    def _give_up(self, requester: PartitionRequester, cause: BaseException) -> None:
        self.cancel(requester)
        log.debug("%s stopped waiting: %s", requester, text_of(cause))
        requester.on_request_failed(cause)

    def partitions(self) -> tuple[ResultPartition, ...]:
        """Return all registered partitions."""
        return tuple(self._partitions.values())

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._waiting)

    def _answer(
        self, partition: ResultPartition, subpartition: int, requester: PartitionRequester
    ) -> bool:
        try:
            view = partition.create_view(subpartition, requester)
        except Exception as cause:
            requester.on_request_failed(cause)
            return False
        else:
            log.debug(
                "partition %s: subpartition %d granted to %s",
                partition.partition_id,
                subpartition,
                requester,
            )
            requester.on_view_created(view)
            return True

    def _forget(self, partition: ResultPartition) -> None:
        wire_id = wire_partition_id(partition.partition_id)
        del self._partitions[wire_id]
        named = self._consumers.pop(wire_id, None)
        consumers = frozenset(named) if named is not None else None
        log.debug("partition %s released", partition.partition_id)
        self._remember(wire_id, partition.kept_failure, consumers)

    def _remember(
        self, wire_id: bytes, failure: KeptError | None, consumers: frozenset[str] | None
    ) -> None:
        if failure is not None:
            failure = KeptError(failure.kind, failure.text[:_TEXT_CHARACTERS_MAX])
        self._ended[wire_id] = _EndedPartition(failure, self.clock(), consumers)
        # ``_find_ended`` expects the oldest record first.
        self._ended.move_to_end(wire_id)
        while len(self._ended) > self._ended_max:
            self._ended.popitem(last=False)

    def _find_ended(self, wire_id: bytes, now: float) -> _EndedPartition | None:
        """Return the record of a released partition, after dropping expired records."""
        ended = self._ended
        while ended and next(iter(ended.values())).since + self._ended_s <= now:
            ended.popitem(last=False)
        return ended.get(wire_id)


def _first(waiting: OrderedDict[int, _WaitingRequest]) -> _WaitingRequest:
    return next(iter(waiting.values()))

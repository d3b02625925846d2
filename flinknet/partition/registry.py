"""The partition registry: where the consumers of a worker's result partitions find them.

Theory of operation (Flink's ResultPartitionManager). Partitions are known here from registration
to release, by the 16-byte id that travels on the wire. A request for a partition that is not
registered yet *waits*: it is answered by the registration, by its own deadline, by the end of this
worker, or by the consumer cancelling it. That replaces a storm of retries while a job is being
deployed, and lets producer and consumer start in any order. Partitions that were released or failed
are remembered (their id, and type and text of the cause), so that a late request is refused at once
and with the first cause. The last ``ended_max`` of them are, each for ``ended_s``; Flink's manager
forgets them at once, and its consumers ask for the state of their producer at the coordinator,
which programs without a coordinator do not have.

A *topic* stands for any number of partitions: each request for it is answered with one of its own,
which its producer makes for it, whatever subpartition it asks for.

A partition may *name* the workers that consume its subpartitions. The request of another worker is
not answered, neither while the partition is there nor when it is gone: it waits as if there were no
such partition.

Time comes in as ``now``, or from ``clock``, which the shell sets, and never goes back, so requests
expire in the order in which they began to wait. ``next_deadline`` says when ``expire`` and
``take_overdue`` want to be called, and ``on_waiting`` is called when a request begins to wait.
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
"""Length of an error that is remembered: about as much as crosses the network."""

WIRE_ID_BYTES = 16


def wire_partition_id(partition_id: str) -> bytes:
    """Return the 16 bytes that stand for a partition's name on the wire."""
    return sha256(partition_id.encode()).digest()[:WIRE_ID_BYTES]


class PartitionRequester(AvailabilityListener, Protocol):
    """A reader that asks for a view and may have to wait for it."""

    def on_view_created(self, view: SubpartitionView) -> None:
        """The partition was registered; called inside its registration."""

    def on_request_failed(self, cause: BaseException) -> None:
        """The request cannot be met: not found in time, released or failed."""


def _keep_no_time() -> None:
    """Do nothing: the owner of the registry calls ``expire`` by itself."""


@dataclass(slots=True)
class _Waiting:
    wire_id: bytes
    subpartition: int
    requester: PartitionRequester
    consumer: str
    since: float


class _Gone(NamedTuple):
    failure: KeptError | None
    since: float
    consumers: frozenset[str] | None
    """The workers that may know, which are few, however many subpartitions there were."""


class PartitionRegistry:
    """Registered partitions, and requests that wait for them.

    Args: request_timeout_s: how long a request waits; 0 for ever. notice_s: after how long it is
        overdue; 0 for never. ended_max, ended_s: how many released partitions are remembered, and
        for how long.
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
        self._gone: OrderedDict[bytes, _Gone] = OrderedDict()
        self._ended_max = ended_max
        self._ended_s = ended_s
        self.clock: Callable[[], float] = float
        self._consumers: dict[bytes, tuple[str, ...]] = {}
        """Of partitions that name them, the worker of each subpartition."""
        self._topics: dict[bytes, Callable[[], ResultPartition]] = {}
        # Ordered ones find their first in constant time, however many before it were deleted.
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._waiting_for: dict[bytes, dict[int, _Waiting]] = {}
        self._not_overdue: OrderedDict[int, _Waiting] = OrderedDict()
        self.on_waiting: Callable[[], None] = _keep_no_time

    def register(self, partition: ResultPartition, consumers: Sequence[str] | None = None) -> None:
        """Make a partition known and answer the requests that wait for it.

        ``consumers`` names the worker of each subpartition; by default any may consume it.
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
        """Answer each request for a name, those that wait for it first, with subpartition 0 of the
        partition that ``join`` makes for it."""
        wire_id = self._free_id(name)
        self._topics[wire_id] = join
        for waiting in list(self._waiting_for.get(wire_id, {}).values()):
            self.cancel(waiting.requester)
            self._join(join, waiting.requester)

    def _free_id(self, name: str) -> bytes:
        """Return the id of a name that is about to be used; LocalProtocolError if it is in use."""
        wire_id = wire_partition_id(name)
        if wire_id in self._partitions or wire_id in self._topics:
            raise LocalProtocolError(
                f"{name} is already registered in this worker: names must be unique while "
                "they are in use"
            )
        self._gone.pop(wire_id, None)
        return wire_id

    def forget_topic(self, name: str, failure: KeptError | None = None) -> None:
        """Let requests for a topic wait again, or refuse them if its writer failed; idempotent."""
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
        """Answer through ``requester``, at once or when the partition is registered or given up.

        ``consumer`` is the id of the worker that asks. Return whether a subpartition of a
        registered partition was granted, which happens once for each: a peer may ask for anything
        else as often as it likes.
        """
        partition, gone = self._partitions.get(wire_id), self._find_gone(wire_id, now)
        if (join := self._topics.get(wire_id)) is not None:
            self._join(join, requester)
        elif partition is not None and self._is_granted(wire_id, subpartition, consumer):
            return self._answer(partition, subpartition, requester)
        elif gone is not None and (gone.consumers is None or consumer in gone.consumers):
            kept = gone.failure
            requester.on_request_failed(kept.error() if kept else released_error("the partition"))
        else:
            waiting = _Waiting(wire_id, subpartition, requester, consumer, now)
            key = id(requester)
            self._waiting[key] = self._not_overdue[key] = waiting
            self._waiting_for.setdefault(wire_id, {})[key] = waiting
            log.debug("%s waits for its partition", requester)
            self.on_waiting()
        return False

    def _is_granted(self, wire_id: bytes, subpartition: int, consumer: str) -> bool:
        named = self._consumers.get(wire_id)
        return named is None or (subpartition < len(named) and named[subpartition] == consumer)

    def cancel(self, requester: PartitionRequester) -> None:
        """Forget a waiting request; harmless if it does not wait."""
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
        """When the next waiting request expires or is overdue, None if there is nothing to do."""
        deadline = float("inf")
        if self._waiting:
            deadline = _first(self._waiting).since + self._request_timeout_s
        if self._not_overdue:
            deadline = min(deadline, self._next_notice())
        return deadline if deadline < float("inf") else None

    def _next_notice(self) -> float:
        """Requests that begin to wait one after the other are told of together."""
        return max(_first(self._not_overdue).since, self._last_notice) + self._notice_s

    def expire(self, now: float, at_most: int = sys.maxsize) -> None:
        """Fail the requests whose deadline has passed, ``at_most`` so many of them.

        If some are left, ``next_deadline`` has passed as well.
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
        """Return, once, the requests that have waited for so long that a warning is due."""
        if not self._not_overdue or self._next_notice() > now:
            return []
        self._last_notice = now
        values = self._not_overdue.values()
        overdue = list(takewhile(lambda waiting: waiting.since + self._notice_s <= now, values))
        for waiting in overdue:
            del self._not_overdue[id(waiting.requester)]
        return [waiting.requester for waiting in overdue]

    def close(self) -> None:
        """Fail every request that waits, since nothing will be registered any more."""
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
        log.debug("%s waits no longer: %s", requester, text_of(cause))
        requester.on_request_failed(cause)

    def partitions(self) -> tuple[ResultPartition, ...]:
        """Every registered partition."""
        return tuple(self._partitions.values())

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
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
        self._gone[wire_id] = _Gone(failure, self.clock(), consumers)
        self._gone.move_to_end(wire_id)
        while len(self._gone) > self._ended_max:
            self._gone.popitem(last=False)

    def _find_gone(self, wire_id: bytes, now: float) -> _Gone | None:
        """Return what is remembered of a partition; forget what ended too long ago."""
        gone = self._gone
        while gone and next(iter(gone.values())).since + self._ended_s <= now:
            gone.popitem(last=False)
        return gone.get(wire_id)


def _first(waiting: OrderedDict[int, _Waiting]) -> _Waiting:
    return next(iter(waiting.values()))

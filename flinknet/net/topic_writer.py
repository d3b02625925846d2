"""A topic: one writer, and readers that join and leave while it writes.

Each reader that requests the topic gets its own partition, which begins with the next emitted
record (``partition/registry.py``). With the policy "wait", a record is written for each reader in
turn, and the slowest reader sets the pace. With any other policy, each reader has a *queue*, and a
task writes it as fast as that reader reads. ``emit`` puts a record into all queues and does not
wait. The policy decides about a reader with a full queue:

| policy | full queue |
|---|---|
| drop_oldest | drops its oldest record |
| latest | holds one record only, always the newest |
| disconnect | ends the reader with an error that states the reason |

The topic notices that a reader has left when it writes for that reader. The wire protocol is
unchanged: a reader of a topic is an ordinary reader.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from flinknet.errors import ClosedResourceError, ConfigurationError, FlinknetError, LocalError
from flinknet.metrics.environment_statistics import TopicStatistics
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.writer import RecordWriter

__all__ = ["SlowReaders", "TopicWriter"]

SlowReaders: TypeAlias = Literal["wait", "drop_oldest", "latest", "disconnect"]

_EMITS_PER_TURN = 64
"""Number of calls after which the tasks that write the queues get a turn, as ``emit`` does not
wait."""


class _Subscription:
    """One reader: its writer, its queue, and the task between them."""

    def __init__(self, writer: RecordWriter) -> None:
        self.writer = writer
        self.queue: deque[Any] = deque()
        self.filled = asyncio.Event()
        self.is_ending = False
        self.task: asyncio.Task[None] | None = None

    async def pump(self) -> None:
        """Write the queue as fast as the reader reads, until it is empty and the topic ends."""
        while self.queue or not self.is_ending:
            if not self.queue:
                self.filled.clear()
                await self.filled.wait()
                continue
            await self.writer.emit(self.queue.popleft())
        await self.writer.finish()


class TopicWriter:
    """Writes a topic; created by ``NetworkEnvironment.open_topic``."""

    def __init__(
        self,
        name: str,
        make_writer: Callable[[int], tuple[ResultPartition, RecordWriter]],
        *,
        slow_readers: SlowReaders,
        queue_records_max: int,
    ) -> None:
        if queue_records_max < 1:
            raise ConfigurationError(
                f"queue_records_max is {queue_records_max}: choose 1 record or more"
            )
        if slow_readers not in ("wait", "drop_oldest", "latest", "disconnect"):
            raise ConfigurationError(
                f"slow_readers is {slow_readers!r}: choose wait, drop_oldest, latest or disconnect"
            )
        self._name = name
        self._make_writer = make_writer
        self._policy = slow_readers
        self._limit = 1 if slow_readers == "latest" else queue_records_max
        self._subscriptions: list[_Subscription] = []
        self._joined = self._left = self._disconnected = self._dropped = 0
        self._emits = 0
        self._failure: LocalError | None = None

    def join(self) -> ResultPartition:
        """Create the partition of a new reader."""
        partition, writer = self._make_writer(self._joined)
        subscription = _Subscription(writer)
        if self._policy != "wait":
            subscription.task = asyncio.create_task(self._follow(subscription))
        self._subscriptions.append(subscription)
        self._joined += 1
        return partition

    async def emit(self, record: Any) -> None:
        """Write a record for every current reader; the caller must not change it afterwards.

        Raises the errors of a writer's ``emit`` for a record that cannot be sent; with queues, at
        the next call. A reader that has left is no error.
        """
        if self._failure is not None:
            raise self._failure
        if self._policy == "wait":
            for subscription in tuple(self._subscriptions):
                await self._write(subscription, record)
            return
        for subscription in tuple(self._subscriptions):
            self._offer(subscription, record)
        self._emits += 1
        if self._emits % _EMITS_PER_TURN == 0:
            await asyncio.sleep(0)

    def statistics(self) -> TopicStatistics:
        """Return the number of readers, and their losses."""
        return TopicStatistics(
            name=self._name,
            readers=len(self._subscriptions),
            records_queued=sum(len(one.queue) for one in self._subscriptions),
            joined_total=self._joined,
            left_total=self._left,
            disconnected_total=self._disconnected,
            records_dropped_total=self._dropped,
        )

    async def finish(self, timeout_s: float) -> None:
        """End all readers' partitions.

        With the policy "wait" it returns when the readers have processed everything. Otherwise it
        returns after ``timeout_s`` at the latest.
        """
        if self._policy == "wait":
            for subscription in tuple(self._subscriptions):
                await self._end(subscription)
            return
        tasks = []
        for subscription in self._subscriptions:
            subscription.is_ending = True
            subscription.filled.set()
            assert subscription.task is not None, "a topic that does not wait has a full queue"
            tasks.append(subscription.task)
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        if self._failure is not None:
            raise self._failure

    def fail(self, cause: BaseException) -> None:
        """Fail every reader with this error."""
        for subscription in self._subscriptions:
            subscription.writer.fail(cause)

    async def close(self) -> None:
        """Cancel all tasks and close all writers."""
        tasks = [one.task for one in self._subscriptions if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for subscription in self._subscriptions:
            subscription.writer.close()
        self._subscriptions.clear()

    def _offer(self, subscription: _Subscription, record: Any) -> None:
        if len(subscription.queue) >= self._limit:
            if self._policy == "disconnect":
                self._disconnected += 1
                self._dropped += len(subscription.queue) + 1
                subscription.writer.fail(
                    ClosedResourceError(
                        f'a reader of "{self._name}" let {self._limit} records wait '
                        "(queue_records_max), and the topic disconnects slow readers"
                    )
                )
                self._remove(subscription)
                return
            subscription.queue.popleft()
            self._dropped += 1
        subscription.queue.append(record)
        subscription.filled.set()

    async def _follow(self, subscription: _Subscription) -> None:
        try:
            await subscription.pump()
        except LocalError as error:
            # The record cannot be sent to any reader: the next ``emit`` raises this.
            self._failure = error
        except FlinknetError:
            self._leave(subscription)

    async def _write(self, subscription: _Subscription, record: Any) -> None:
        try:
            await subscription.writer.emit(record)
        except LocalError:
            raise
        except FlinknetError:
            self._leave(subscription)

    async def _end(self, subscription: _Subscription) -> None:
        try:
            await subscription.writer.finish()
        except FlinknetError:
            self._leave(subscription)

    def _leave(self, subscription: _Subscription) -> None:
        if subscription in self._subscriptions:
            self._left += 1
            self._remove(subscription)

    def _remove(self, subscription: _Subscription) -> None:
        self._subscriptions.remove(subscription)
        # A task that finds its own reader gone ends by itself.
        if subscription.task is not None and subscription.task is not asyncio.current_task():
            subscription.task.cancel()
        subscription.writer.close()

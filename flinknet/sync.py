"""The exchange for programs without an event loop: Spark tasks, pandas scripts, threads.

::

    with flinknet.sync.NetworkEnvironment(directory="names") as environment:
        with environment.open_writer("readings") as writer:
            writer.emit_many((number % 7, number) for number in range(100_000))

Theory of operation. One thread of the process runs an event loop while any environment of this
module exists. Each call runs on that loop, and the caller waits for it. So all objects may be used
from any thread, by several threads at once, and also inside an event loop, which then blocks. A
call costs two thread switches, some 0.1 to 0.5 ms; ``emit_many`` and ``batches`` share this cost
among many records. Several threads may use one reader or writer; their calls are serialised. Each
record goes to one of the threads that share a reader, and each thread gets its records in order.

A forked process does not have the thread. Objects opened before the fork raise an error there;
objects opened afterwards use a thread of the child.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from flinknet import machine
from flinknet.config import BufferTimeout, NetworkConfig
from flinknet.errors import LocalProtocolError
from flinknet.metrics.environment_statistics import EnvironmentStatistics, TopicStatistics
from flinknet.net.after_fork import used_after_fork
from flinknet.net.network_environment import NetworkEnvironment as AsyncNetworkEnvironment
from flinknet.net.topic_writer import SlowReaders
from flinknet.net.topic_writer import TopicWriter as AsyncTopicWriter
from flinknet.records.block import chunks
from flinknet.records.partitioner import Partitioner
from flinknet.records.reader import RecordReader as AsyncRecordReader
from flinknet.records.serialization.record_types import Registered
from flinknet.records.writer import RecordWriter as AsyncRecordWriter

__all__ = [
    "NetworkEnvironment",
    "RecordReader",
    "RecordWriter",
    "TopicWriter",
    "open_reader",
    "open_topic",
    "open_writer",
]

T = TypeVar("T")

RECORDS_AT_ONCE = 1024
"""Number of records that ``emit_many`` takes from the caller's iterable per call of the loop's
thread: enough that the cost of the call is negligible."""


class _LoopThread:
    """The event loop shared by all environments of this process, while there are any."""

    def __init__(self) -> None:
        self._lock = machine.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: machine.Thread | None = None

    def acquire(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs until every user has released it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = machine.Thread(
                    target=self._loop.run_forever, name="flinknet.sync", daemon=True
                )
                self._thread.start()
            self._users += 1
            return self._loop

    def release(self) -> None:
        """Release the loop; the last user stops it."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            loop, thread, self._loop = self._loop, self._thread, None
        assert loop is not None, "the loop is missing"
        assert thread is not None, "it ran"
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        # The loop has no thread any more, so this one may run it.
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


_shared = _LoopThread()


def _forget_the_thread() -> None:
    """Replace the thread in a forked process, which has only the thread that forked."""
    global _shared  # noqa: PLW0603 - the one of this process
    _shared = _LoopThread()


os.register_at_fork(after_in_child=_forget_the_thread)


class _Resource(Generic[T]):
    """An asynchronous context manager, entered and left in the loop's thread."""

    _what = "this"
    """Name of the resource in messages."""

    def __init__(self, open_it: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._open_it = open_it
        self._manager: AbstractAsyncContextManager[T] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._served_by = _shared
        self._inner: T
        self._turn = machine.Lock()
        """Serialises the calls of several threads."""

    def __enter__(self) -> Self:
        if self._loop is not None:
            raise LocalProtocolError("this can be entered only once")
        self._served_by = _shared
        self._loop = _shared.acquire()
        try:
            self._manager = self._open_it()
            self._inner = self._call(self._manager.__aenter__())
        except BaseException:
            _shared.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        manager, self._manager = self._manager, None
        assert manager is not None, "it was entered"
        if self._served_by is not _shared:
            return  # The resource belongs to the parent process, which still uses it.
        try:
            self._call_in_loop(manager.__aexit__(kind, error, trace))
        finally:
            _shared.release()

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            self._check_open()
        except LocalProtocolError:
            coroutine.close()
            raise
        return self._call_in_loop(coroutine)

    def _check_open(self) -> None:
        if self._manager is None:
            raise LocalProtocolError(f"{self._what} is not open: use it inside its `with` block")
        if self._served_by is not _shared:
            raise used_after_fork(self._what)

    def _call_in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None, "it was entered"
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # After Ctrl-C, the awaited call must end, too.
            raise


class RecordWriter(_Resource[AsyncRecordWriter]):
    """Writes a partition; created by ``open_writer``."""

    _what = "the writer"

    def emit(self, record: Any) -> None:
        """Write one record, which may be changed afterwards; blocks while there is no memory.

        Raises the errors of the asynchronous ``emit``.
        """
        self._write(_awaited(self._inner_writer().emit, record))

    def emit_many(self, records: Iterable[Any]) -> None:
        """Write the records of any iterable, like ``emit``; this thread iterates over it.

        If the iterable raises, the records before that are written.
        """
        for some in chunks(records, RECORDS_AT_ONCE):
            self._write(_awaited(self._inner_writer().emit_many, some))

    def broadcast_emit(self, record: Any) -> None:
        """Write one record to every subpartition."""
        self._write(_awaited(self._inner_writer().broadcast_emit, record))

    def flush(self) -> None:
        """Send written records now, without waiting for the buffer timeout."""
        self._call(_called(self._inner_writer().flush))

    def _write(self, call: Coroutine[Any, Any, None]) -> None:
        with self._turn:
            self._call(call)

    def _inner_writer(self) -> AsyncRecordWriter:
        self._check_open()
        return self._inner


class TopicWriter(_Resource[AsyncTopicWriter]):
    """Writes a topic; created by ``open_topic``. Readers may come and go between any two calls."""

    _what = "the topic"

    def emit(self, record: Any) -> None:
        """Write one record to all present readers; it must not be changed afterwards.

        Raises the errors of the asynchronous ``emit``.
        """
        self.emit_many([record])

    def emit_many(self, records: Iterable[Any]) -> None:
        """Write the records of any iterable, like ``emit``; this thread iterates over it.

        If the iterable raises, the records before that are written.
        """
        for some in chunks(records, RECORDS_AT_ONCE):
            emitting = _emit_each(self._inner_topic(), some)
            with self._turn:
                self._call(emitting)

    def statistics(self) -> TopicStatistics:
        """Return the counts of readers and of records they have lost."""
        counted: TopicStatistics = self._call(_called(self._inner_topic().statistics))
        return counted

    def _inner_topic(self) -> AsyncTopicWriter:
        self._check_open()
        return self._inner


class RecordReader(_Resource[AsyncRecordReader]):
    """Iterates over the records of a partition, until all its writers end.

    Created by ``open_reader``. Raises the errors of the asynchronous reader.
    """

    _what = "the reader"
    _rest: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._served_by is not _shared:
            raise used_after_fork(self._what)
        with self._turn:
            while True:
                for record in self._rest:
                    return record
                batch = self._fetch()
                if batch is None:
                    raise StopIteration
                self._rest = iter(batch)

    def batches(self) -> Iterator[list[Any]]:
        """Iterate over lists of the records that arrived in one network buffer.

        If an iteration over records has begun a list, the rest of it comes first.
        """
        while (batch := self._next_batch()) is not None:
            yield batch

    def _next_batch(self) -> list[Any] | None:
        self._check_open()
        with self._turn:
            return list(self._rest) or self._fetch()

    def _fetch(self) -> list[Any] | None:
        """Wait for the next batch.

        The caller must hold the turn until it has stored the batch. Otherwise another thread could
        fetch the following batch and return it first.
        """
        self._check_open()
        batch = self._call(self._inner.next_batch())
        return None if batch is None else list(batch)


class NetworkEnvironment(_Resource[AsyncNetworkEnvironment]):
    """The exchange of this process, or a part of it; use it in a ``with`` statement.

    The arguments are those of ``flinknet.NetworkEnvironment``.
    """

    _what = "the network environment"

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        worker_id: str | None = None,
        job: str = "embedded",
        attempt: int = 0,
        secret: bytes | str | None = None,
        directory: str | os.PathLike[str] | None = None,
        config: NetworkConfig | None = None,
    ) -> None:
        made = AsyncNetworkEnvironment(
            host=host,
            port=port,
            worker_id=worker_id,
            job=job,
            attempt=attempt,
            secret=secret,
            directory=directory,
            config=config,
        )
        super().__init__(lambda: made)

    @property
    def address(self) -> str:
        """Address on which this environment listens, as ``host:port``."""
        return self._running().address

    def statistics(self) -> EnvironmentStatistics:
        """Return the statistics of memory, peers, partitions and gates."""
        made: EnvironmentStatistics = self._call(_called(self._running().statistics))
        return made

    def open_writer(
        self,
        name: str,
        *,
        subpartitions: int = 1,
        consumers: Sequence[str] | None = None,
        partitioner: Partitioner | None = None,
        buffer_timeout_ms: BufferTimeout | None = None,
        types: Registered = None,
    ) -> RecordWriter:
        """Produce a partition, in a ``with`` block.

        The block ends when the consumers have processed everything. An exception inside is passed
        on to the consumers.
        """
        return RecordWriter(
            lambda: self._running().open_writer(
                name,
                subpartitions=subpartitions,
                consumers=consumers,
                partitioner=partitioner,
                buffer_timeout_ms=buffer_timeout_ms,
                types=types,
            )
        )

    def open_topic(
        self,
        name: str,
        *,
        slow_readers: SlowReaders = "wait",
        queue_records_max: int = 1000,
        buffer_timeout_ms: BufferTimeout | None = None,
        types: Registered = None,
    ) -> TopicWriter:
        """Write for readers that join and leave meanwhile, in a ``with`` block.

        ``slow_readers`` selects the treatment of slow readers, as in
        ``flinknet.NetworkEnvironment.open_topic``.
        """
        return TopicWriter(
            lambda: self._running().open_topic(
                name,
                slow_readers=slow_readers,
                queue_records_max=queue_records_max,
                buffer_timeout_ms=buffer_timeout_ms,
                types=types,
            )
        )

    def open_reader(
        self,
        addresses: str | Sequence[str],
        name: str | None = None,
        *,
        subpartition: int = 0,
        producers: int = 1,
        types: Registered = None,
    ) -> RecordReader:
        """Consume one subpartition of partitions at one or several addresses, in a ``with`` block.

        ``name`` is the name of the partitions. With a single argument, that argument is the name,
        and the directory knows the addresses.
        """
        return RecordReader(
            lambda: self._running().open_reader(
                addresses, name, subpartition=subpartition, producers=producers, types=types
            )
        )

    def _running(self) -> AsyncNetworkEnvironment:
        self._check_open()
        return self._inner


@contextmanager
def open_writer(
    name: str,
    *,
    port: int = 0,
    directory: str | os.PathLike[str] | None = None,
    job: str = "embedded",
    secret: bytes | str | None = None,
    config: NetworkConfig | None = None,
    subpartitions: int = 1,
    partitioner: Partitioner | None = None,
    buffer_timeout_ms: BufferTimeout | None = None,
    types: Registered = None,
) -> Iterator[RecordWriter]:
    """Produce a partition in a separate network environment; see ``NetworkEnvironment``.

    Consumers find it by the port, or by its name in the directory.
    """
    with (
        NetworkEnvironment(
            port=port, directory=directory, job=job, secret=secret, config=config
        ) as environment,
        environment.open_writer(
            name,
            subpartitions=subpartitions,
            partitioner=partitioner,
            buffer_timeout_ms=buffer_timeout_ms,
            types=types,
        ) as writer,
    ):
        yield writer


@contextmanager
def open_topic(
    name: str,
    *,
    port: int = 0,
    directory: str | os.PathLike[str] | None = None,
    job: str = "embedded",
    secret: bytes | str | None = None,
    config: NetworkConfig | None = None,
    slow_readers: SlowReaders = "wait",
    queue_records_max: int = 1000,
    buffer_timeout_ms: BufferTimeout | None = None,
    types: Registered = None,
) -> Iterator[TopicWriter]:
    """Write a topic in a separate network environment; see ``NetworkEnvironment``.

    Readers find it by the port, or by its name in the directory.
    """
    with (
        NetworkEnvironment(
            port=port, directory=directory, job=job, secret=secret, config=config
        ) as environment,
        environment.open_topic(
            name,
            slow_readers=slow_readers,
            queue_records_max=queue_records_max,
            buffer_timeout_ms=buffer_timeout_ms,
            types=types,
        ) as topic,
    ):
        yield topic


@contextmanager
def open_reader(
    addresses: str | Sequence[str],
    name: str | None = None,
    *,
    directory: str | os.PathLike[str] | None = None,
    job: str = "embedded",
    secret: bytes | str | None = None,
    config: NetworkConfig | None = None,
    subpartition: int = 0,
    producers: int = 1,
    types: Registered = None,
) -> Iterator[RecordReader]:
    """Consume a subpartition in a separate network environment; see ``NetworkEnvironment``."""
    with (
        NetworkEnvironment(
            directory=directory, job=job, secret=secret, config=config
        ) as environment,
        environment.open_reader(
            addresses, name, subpartition=subpartition, producers=producers, types=types
        ) as reader,
    ):
        yield reader


async def _awaited(method: Callable[[Any], Coroutine[Any, Any, None]], argument: Any) -> None:
    """Call the method in the loop's thread, and do not only await its result there."""
    await method(argument)


async def _emit_each(topic: AsyncTopicWriter, records: list[Any]) -> None:
    for record in records:
        await topic.emit(record)


async def _called(method: Callable[[], T]) -> T:
    return method()

"""The exchange for programs without an event loop: Spark tasks, pandas scripts, threads.

::

    with flinknet.sync.NetworkEnvironment(directory="names") as environment:
        with environment.open_writer("readings") as writer:
            writer.emit_many((number % 7, number) for number in range(100_000))

Theory of operation. One thread of the process runs an event loop as long as there are environments
here; each call is made there, and waited for. So all of it may be used from any thread, several at
once, also inside of an event loop, which then stands still meanwhile. Two changes of threads are
the price of a call, some 0.1 to 0.5 ms: ``emit_many`` and ``batches`` share it among many records.
A reader, or a writer, may be used by several threads: their calls come one after the other. Each
record goes to one of the threads that share a reader, and each thread gets its records in order.

A process that is forked does not have the thread: what was opened before raises there, and what is
opened anew has a thread of the child's.
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
from flinknet.net.after_fork import left_behind
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
"""Of ``emit_many``, taken from the caller's iterable before they go to the loop's thread: enough
that the call vanishes beside them."""


class _LoopThread:
    """The event loop that all environments of this process share, while there are some."""

    def __init__(self) -> None:
        self._lock = machine.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: machine.Thread | None = None

    def acquire(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs until as many have released it."""
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
        """Need the loop no longer."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            loop, thread, self._loop = self._loop, self._thread, None
        assert loop is not None, "somebody had it"
        assert thread is not None, "it ran"
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


_shared = _LoopThread()


def _forget_the_thread() -> None:
    """A process that was forked has no thread but its own."""
    global _shared  # noqa: PLW0603 - the one of this process
    _shared = _LoopThread()


os.register_at_fork(after_in_child=_forget_the_thread)


class _Resource(Generic[T]):
    """An asynchronous context manager, entered and left in the loop's thread."""

    _what = "this"
    """The name of the resource in messages."""

    def __init__(self, open_it: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._open_it = open_it
        self._manager: AbstractAsyncContextManager[T] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._served_by = _shared
        self._inner: T
        self._turn = machine.Lock()
        """Of the threads that use it."""

    def __enter__(self) -> Self:
        if self._loop is not None:
            raise LocalProtocolError("this is entered once")
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
            return  # it is the parent's, which goes on with it
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
            raise left_behind(self._what)

    def _call_in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None, "it was entered"
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: what was waited for ends, too.
            raise


class RecordWriter(_Resource[AsyncRecordWriter]):
    """Writes a partition; made by ``open_writer``."""

    _what = "the writer"

    def emit(self, record: Any) -> None:
        """Write one record; blocks while there is no memory for it. It may be changed afterwards.
        Raises what the asynchronous ``emit`` does."""
        self._write(_awaited(self._inner_writer().emit, record))

    def emit_many(self, records: Iterable[Any]) -> None:
        """Write the records of any iterable, which this thread iterates over; as ``emit``. If it
        raises, the records before that are written."""
        for some in chunks(records, RECORDS_AT_ONCE):
            self._write(_awaited(self._inner_writer().emit_many, some))

    def broadcast_emit(self, record: Any) -> None:
        """Write one record to every subpartition."""
        self._write(_awaited(self._inner_writer().broadcast_emit, record))

    def flush(self) -> None:
        """Have what was written sent now, and not after the buffer timeout."""
        self._call(_called(self._inner_writer().flush))

    def _write(self, call: Coroutine[Any, Any, None]) -> None:
        with self._turn:
            self._call(call)

    def _inner_writer(self) -> AsyncRecordWriter:
        self._check_open()
        return self._inner


class TopicWriter(_Resource[AsyncTopicWriter]):
    """Writes a topic; made by ``open_topic``. Readers may come and go between any two calls."""

    _what = "the topic"

    def emit(self, record: Any) -> None:
        """Write one record for every reader that is there; it must not be changed afterwards.
        Raises what the asynchronous ``emit`` does."""
        self.emit_many([record])

    def emit_many(self, records: Iterable[Any]) -> None:
        """Write the records of any iterable, which this thread iterates over; as ``emit``. If it
        raises, the records before that are written."""
        for some in chunks(records, RECORDS_AT_ONCE):
            emitting = _emit_each(self._inner_topic(), some)
            with self._turn:
                self._call(emitting)

    def statistics(self) -> TopicStatistics:
        """Count readers and what they have lost."""
        counted: TopicStatistics = self._call(_called(self._inner_topic().statistics))
        return counted

    def _inner_topic(self) -> AsyncTopicWriter:
        self._check_open()
        return self._inner


class RecordReader(_Resource[AsyncRecordReader]):
    """Iterates over the records of a partition, to the end of all its writers; made by
    ``open_reader``. Raises what the asynchronous reader does."""

    _what = "the reader"
    _rest: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._served_by is not _shared:
            raise left_behind(self._what)
        with self._turn:
            while True:
                for record in self._rest:
                    return record
                batch = self._fetch()
                if batch is None:
                    raise StopIteration
                self._rest = iter(batch)

    def batches(self) -> Iterator[list[Any]]:
        """Iterate over lists of the records that came in one network buffer; the first is the rest
        of one that an iteration over records has begun."""
        while (batch := self._next_batch()) is not None:
            yield batch

    def _next_batch(self) -> list[Any] | None:
        self._check_open()
        with self._turn:
            return list(self._rest) or self._fetch()

    def _fetch(self) -> list[Any] | None:
        """Wait for the next batch. Only the thread that has the turn may call this, and it keeps
        the turn until it has put the batch in its place: otherwise another thread could fetch the
        batch behind it and hand that out first."""
        self._check_open()
        batch = self._call(self._inner.next_batch())
        return None if batch is None else list(batch)


class NetworkEnvironment(_Resource[AsyncNetworkEnvironment]):
    """The exchange of this process, or a part of it; use it with ``with``. The arguments are those
    of ``flinknet.NetworkEnvironment``."""

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
        """Where this environment listens, as ``host:port``."""
        return self._running().address

    def statistics(self) -> EnvironmentStatistics:
        """Say what memory, peers, partitions and gates hold."""
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
        """Produce a partition, in a ``with`` block: leaving it returns when the consumers have
        processed everything; an exception inside is what they get."""
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
        """Write, in a ``with`` block, for readers that join and leave meanwhile; what becomes of
        slow ones says ``slow_readers``, as in ``flinknet.NetworkEnvironment.open_topic``."""
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
        """Consume one subpartition of the partitions called ``name`` at one or several addresses,
        in a ``with`` block; with one text only it is the name, which the directory knows."""
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
    """Produce a partition in a network environment of its own; see ``NetworkEnvironment``.

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
    """Write a topic in a network environment of its own; see ``NetworkEnvironment``.

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
    """Consume a subpartition in a network environment of its own; see ``NetworkEnvironment``."""
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
    """Make the call in the loop's thread, too, and not only the waiting."""
    await method(argument)


async def _emit_each(topic: AsyncTopicWriter, records: list[Any]) -> None:
    for record in records:
        await topic.emit(record)


async def _called(method: Callable[[], T]) -> T:
    return method()

"""Tools of the core's tests: real objects made in one line, and recorders for the core's protocols.

Nothing here replaces a class of flinknet. A recorder implements one of the core's protocols (a
listener, a client, a recycler) and records its calls.
"""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from types import coroutine
from typing import Any, Generic, TypeVar

import pytest

from flinknet.buffer.availability import Availability, WaitReason
from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.builder import BufferBuilder
from flinknet.buffer.local_pool import LocalBufferPool
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.segment import MemorySegment
from flinknet.buffer.view import AvailabilityListener, SubpartitionView
from flinknet.compiled_modules import COMPILED
from flinknet.config import NetworkConfig
from flinknet.consumer.buffer_manager import BufferManager
from flinknet.consumer.gate import Gate
from flinknet.consumer.input_channel import InputChannel, PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.local_channel import LocalInputChannel
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.consumer.union_input_gate import UnionInputGate
from flinknet.consumer.unknown_channel import UnknownInputChannel
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.writer import RecordWriter
from flinknet.wire.buffer_header import BufferHeader
from tests.unit.records.columns.cutting import records_in

T = TypeVar("T")

ACCOUNTING_CLASSES = (
    NetworkBufferPool,
    LocalBufferPool,
    PipelinedSubpartition,
    ResultPartition,
    BufferManager,
    InputChannel,
    LocalInputChannel,
    RemoteInputChannel,
    UnknownInputChannel,
    InputGate,
    UnionInputGate,
)

HERE = "127.0.0.1:1"
"""Address of the worker that a test plays; locations with it are local."""

THERE = "127.0.0.1:2"
"""Address of a peer."""


# -- invariants ------------------------------------------------------------------------------------


@contextmanager
def invariants_checked_after_every_call() -> Iterator[None]:
    """Check every accounting object that a call from outside touched, when that call is over.

    Inside a call the accounts may be inconsistent for a moment, so only the outermost call counts.
    Methods of compiled classes cannot be replaced: with compiled modules nothing is checked here.
    The same tests run as plain Python as well (``.ci/run``).
    """
    if COMPILED:
        yield
        return
    touched: dict[int, Any] = {}
    depth = 0

    def checked(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            nonlocal depth
            touched[id(self)] = self
            depth += 1
            try:
                return method(self, *arguments, **options)
            finally:
                try:
                    for accounting in list(touched.values()) if depth == 1 else ():
                        accounting.check_invariants()  # which may call others
                finally:
                    depth -= 1
                    if depth == 0:
                        touched.clear()

        return call

    with pytest.MonkeyPatch.context() as patch:
        for accounting_class in ACCOUNTING_CLASSES:
            for name, member in list(vars(accounting_class).items()):
                if inspect.isfunction(member) and not name.startswith(("_", "check_invariants")):
                    patch.setattr(accounting_class, name, checked(member))
        yield


@pytest.fixture(autouse=True)
def checked_invariants() -> Iterator[None]:
    """Check the invariants in every test of a folder with a conftest that imports this."""
    with invariants_checked_after_every_call():
        yield


def assert_everything_returned(pool: NetworkBufferPool) -> None:
    """Check that every segment is free again and that nothing is reserved."""
    counts = pool.statistics()
    assert (counts.free, counts.required, counts.exclusive, counts.local_pools) == (
        counts.total,
        0,
        0,
        0,
    )


# -- producing -------------------------------------------------------------------------------------


class Recycler:
    """A BufferRecycler that keeps the returned segments."""

    def __init__(self) -> None:
        self.segments: list[MemorySegment] = []

    def recycle(self, segment: MemorySegment) -> None:
        self.segments.append(segment)


def builder_of(
    content: bytes = b"", *, capacity: int = 64, recycler: Recycler | None = None, sharers: int = 1
) -> BufferBuilder:
    """Make an open builder that holds ``content``, ending with a record."""
    builder = BufferBuilder(MemorySegment(capacity), recycler or Recycler(), sharers=sharers)
    if content:
        builder.append(memoryview(content))
    return builder


def event_of(data_type: DataType = DataType.EVENT_BUFFER, payload: bytes = b"event") -> Buffer:
    """Make an event for one reader."""
    return Buffer.event(data_type, payload)


def make_config(**options: Any) -> NetworkConfig:
    """Make a configuration with few small buffers, unless ``options`` change it."""
    return NetworkConfig(**{"segment_bytes": 64, "network_memory_bytes": 64 * 64, **options})


def make_partition(
    subpartitions: int = 1,
    *,
    segments: int = 64,
    segment_bytes: int = 64,
    pool: NetworkBufferPool | None = None,
    partition_id: str = "p",
    **options: Any,
) -> tuple[ResultPartition, NetworkBufferPool]:
    """Make a result partition over ``pool``, or over a network pool of its own."""
    pool = pool if pool is not None else NetworkBufferPool(segments, segment_bytes)
    return ResultPartition(partition_id, subpartitions, pool, make_config(**options)), pool


def put(partition: ResultPartition, index: int, content: bytes) -> BufferBuilder:
    """Write whole records to a new builder of a subpartition."""
    builder = partition.request_builder(index)
    assert builder is not None, "the partition has no buffer"
    assert builder.append(memoryview(content)) == len(content)
    return builder


def pipelined(partition: ResultPartition, index: int = 0) -> PipelinedSubpartition:
    """Return a subpartition of a partition that is read while it is written."""
    subpartition = partition.subpartitions[index]
    assert isinstance(subpartition, PipelinedSubpartition)
    return subpartition


def finish(partition: ResultPartition) -> None:
    """Write the end of the data and of the partition, as if every reader had processed all data."""
    partition.notify_end_of_data()
    for index in range(len(partition.subpartitions)):
        subpartition = pipelined(partition, index)
        if not subpartition.acknowledged:
            subpartition.acknowledge_all_data_processed()
    partition.finish()


class Reader:
    """An AvailabilityListener that counts its notices; also a PartitionRequester."""

    def __init__(self) -> None:
        self.notices = 0
        self.barriers = 0
        self.views: list[SubpartitionView] = []
        self.failures: list[BaseException] = []

    def notify_data_available(self) -> None:
        self.notices += 1

    def notify_barrier_queued(self) -> None:
        self.barriers += 1

    def on_view_created(self, view: SubpartitionView) -> None:
        self.views.append(view)

    def on_request_failed(self, cause: BaseException) -> None:
        self.failures.append(cause)


def content_of(buffer: Buffer) -> bytes:
    """Return a buffer's bytes and leave no view behind."""
    view = buffer.view()
    content = bytes(view)
    if isinstance(view, memoryview):
        view.release()
    return content


def take(view: SubpartitionView) -> bytes | DataType | None:
    """Poll and recycle a buffer; return the bytes of data, or the type of an event."""
    polled = view.poll()
    if polled is None:
        return None
    buffer = polled.buffer
    taken = content_of(buffer) if buffer.data_type.is_buffer else buffer.data_type
    buffer.recycle()
    return taken


def take_all(view: SubpartitionView) -> list[bytes | DataType]:
    """Poll and recycle all available buffers."""
    taken = []
    while (item := take(view)) is not None:
        taken.append(item)
    return taken


def view_of(
    partition: ResultPartition, index: int = 0, reader: AvailabilityListener | None = None
) -> SubpartitionView:
    """Attach a reader to a subpartition."""
    return partition.create_view(index, reader if reader is not None else Reader())


# -- consuming -------------------------------------------------------------------------------------


class Client:
    """A PartitionRequestClient that records its messages as (name, channel index)."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []

    def request_subpartition(self, channel: RemoteInputChannel) -> None:
        self.sent.append(("request", channel.index))

    def offer_credit(self, channel: RemoteInputChannel) -> None:
        """Do nothing: no other message is sent that could carry the credit."""

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        self.sent.append(("credit", channel.index))

    def notify_event_taken(self, channel: RemoteInputChannel) -> None:
        """Do nothing: the channel keeps the count."""

    def resume_consumption(self, channel: RemoteInputChannel) -> None:
        self.sent.append(("resume", channel.index))

    def acknowledge_all_data_processed(self, channel: RemoteInputChannel) -> None:
        self.sent.append(("acknowledge", channel.index))

    def announce_buffer_size(self, channel: RemoteInputChannel, size_bytes: int) -> None:
        self.sent.append((f"size {size_bytes}", channel.index))

    def resume_reading(self, channel: RemoteInputChannel) -> None:
        self.sent.append(("resume reading", channel.index))

    def close_channel(self, channel: RemoteInputChannel) -> None:
        self.sent.append(("close", channel.index))


def locations(*addresses: str, partition_id: str = "p") -> list[PartitionLocation]:
    """Return one location per address: subpartition 0 of a partition called p0, p1, ..."""
    return [
        PartitionLocation(address, f"{partition_id}{number}", 0)
        for number, address in enumerate(addresses)
    ]


def make_gate(
    *addresses: str,
    segments: int = 64,
    segment_bytes: int = 64,
    pool: NetworkBufferPool | None = None,
    client: Client | None = None,
    **options: Any,
) -> tuple[InputGate, NetworkBufferPool]:
    """Make a gate with a channel per address and set it up; remote channels are requested."""
    pool = pool if pool is not None else NetworkBufferPool(segments, segment_bytes)
    gate = InputGate("gate", locations(*addresses), HERE, pool, make_config(**options))
    client = client if client is not None else Client()

    def on_ready() -> None:
        for channel in gate.remote_channels:
            channel.request(client)

    gate.setup(on_ready)
    return gate, pool


def make_remote_gate(channels: int, **options: Any) -> tuple[InputGate, NetworkBufferPool]:
    """Make a gate of remote channels."""
    return make_gate(*[THERE] * channels, **options)


def connect_local(gate: InputGate, registry: PartitionRegistry) -> None:
    """Request the partitions of a gate's local channels."""
    for channel in gate.local_channels:
        location = channel.location
        registry.request(
            wire_partition_id(location.partition_id), location.subpartition, channel, 0.0
        )


def begin(channel: RemoteInputChannel, header: BufferHeader) -> memoryview:
    """Let the header of a frame arrive, and return the memory for its body."""
    memory = channel.begin_buffer(header)
    assert isinstance(memory, memoryview), "the frame has to wait"
    return memory


def deliver(
    channel: RemoteInputChannel,
    sequence: int,
    content: bytes = b"x",
    *,
    data_type: DataType = DataType.DATA_BUFFER_WITH_CLEAR_END,
    backlog: int = 0,
    continued: int = 0,
    unfinished: int | None = None,
    records: int | None = None,
) -> None:
    """Let a frame arrive.

    Without a clear end, all bytes that continue no record begin one.
    """
    if unfinished is None:
        unfinished = len(content) - continued if data_type is DataType.DATA_BUFFER else 0
    size = len(content)
    if records is None:
        whole = content[continued : size - unfinished] if data_type.is_buffer else b""
        records = records_in(whole)
    header = BufferHeader(0, sequence, backlog, data_type, size, continued, unfinished, records)
    memory = begin(channel, header)
    memory[:] = content
    memory.release()
    channel.end_buffer()


def deliver_end_of_data(channel: RemoteInputChannel, sequence: int) -> None:
    """Let the end of the data arrive, drained."""
    deliver(channel, sequence, b"\x91\x01", data_type=DataType.END_OF_DATA)


def deliver_end(channel: RemoteInputChannel, sequence: int) -> None:
    """Let the end of the partition arrive."""
    deliver(channel, sequence, b"\x90", data_type=DataType.END_OF_PARTITION)


def end_data(gate: Gate, index: int) -> None:
    """Let the end of a remote channel's data arrive, poll and recycle everything up to it, and
    acknowledge it."""
    channel = gate.channels[index]
    assert isinstance(channel, RemoteInputChannel)
    deliver_end_of_data(channel, channel._expected_sequence)
    while channel.drained is None:
        polled = gate.poll()
        assert polled is not None
        polled[1].recycle()
    gate.acknowledge(index)


def end(gate: Gate, index: int) -> None:
    """Do the same as ``end_data``, and let the end of the partition arrive."""
    end_data(gate, index)
    channel = gate.channels[index]
    assert isinstance(channel, RemoteInputChannel)
    deliver_end(channel, channel._expected_sequence)


# -- coroutines, without an event loop -------------------------------------------------------------


@coroutine
def wait(
    availability: Availability, reason: WaitReason = WaitReason.IDLE
) -> Generator[Availability, None, None]:
    """Suspend until something is available, as the shell does it, for a ``Running`` coroutine."""
    woken: list[bool] = []

    def wake() -> None:
        woken.append(True)

    availability.subscribe(wake)
    try:
        while not woken:
            yield availability
    finally:
        availability.unsubscribe(wake)


class Running(Generic[T]):
    """A coroutine of the core, driven by hand without an event loop.

    Every suspension is visible. ``waits_for`` is the availability that it waits for now; None if it
    only let others run, or has ended.
    """

    def __init__(self, call: Awaitable[T], *, start: bool = True) -> None:
        self._call = call.__await__()
        self.done = False
        self.waits_for: Availability | None = None
        self._results: list[T] = []
        if start:
            self.go_on()

    @property
    def result(self) -> T:
        """The return value."""
        return self._results[0]

    def step(self) -> None:
        """Run to the next suspension or the end; raise the coroutine's error."""
        self._resume(lambda: self._call.send(None))

    def go_on(self) -> None:
        """Run until it waits for something that is not available, or ends."""
        self.step()
        while not self.done and self.waits_for is None:
            self.step()

    def cancel(self) -> None:
        """Cancel it where it is suspended; it must end."""
        with pytest.raises(CancelledError):
            self._resume(lambda: self._call.throw(CancelledError()))
        assert self.done

    def _resume(self, resume: Callable[[], Any]) -> None:
        self.waits_for = None
        try:
            self.waits_for = resume()
        except StopIteration as end:
            self.done = True
            self._results.append(end.value)
        except BaseException:
            self.done = True
            raise


def run(call: Awaitable[T]) -> T:
    """Run a call that never has to wait."""
    running = Running(call)
    assert running.done, "it waits"
    return running.result


class Flusher:
    """An OutputFlusher that records its requests."""

    def __init__(self) -> None:
        self.requests: list[RecordWriter] = []

    def request_flush(self, writer: RecordWriter) -> None:
        self.requests.append(writer)
        if writer.buffer_timeout_ms == 0:
            writer.flush()

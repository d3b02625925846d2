"""The network environment: the exchange of one worker, or of one program that embeds it.

Theory of operation (Flink's NettyShuffleEnvironment). It owns the network buffer pool, the
registry of result partitions, the requests of input gates, the directory of peers, the server
socket and the output flusher, and it is the only place where they meet. Constructing it does no
I/O; entering it allocates the memory and listens; leaving it releases whatever is left of
partitions and gates, lets every connection send what it has, and closes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from types import TracebackType
from typing import Self

from flinknet import machine
from flinknet.buffer.availability import Availability, Wait
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import BufferTimeout, NetworkConfig, check_buffer_timeout
from flinknet.consumer.gate import Gate
from flinknet.consumer.input_channel import PartitionLocation, UnknownLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import (
    ConfigurationError,
    FlinknetError,
    KeptError,
    LocalProtocolError,
    RemoteError,
    RemoteTransportError,
)
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.environment_statistics import EnvironmentStatistics, NetworkStatistics
from flinknet.metrics.environment_totals import EnvironmentTotals, NetworkTotals
from flinknet.metrics.gate_totals import GateTotals
from flinknet.metrics.partition_totals import PartitionTotals
from flinknet.metrics.task_times import TaskTimes
from flinknet.metrics.turns import Reading, Turns, one_by_one
from flinknet.net.address import (
    is_any_address,
    is_coordinator,
    is_loopback,
    join_address,
    reached_at,
    split_address,
)
from flinknet.net.after_fork import disown_after_fork, left_behind
from flinknet.net.debloat_timer import DebloatTimer
from flinknet.net.flusher import EventLoopFlusher
from flinknet.net.gate_requests import GateRequests
from flinknet.net.listening import ACCEPTS_PER_TURN, deepen_backlog
from flinknet.net.machine import check_machine
from flinknet.net.memory_bound import ExchangeShape, MemoryBound, memory_bound
from flinknet.net.partition_directory import PartitionDirectory
from flinknet.net.partition_names import FailedProducer, PartitionNames
from flinknet.net.peers import PeerDirectory
from flinknet.net.request_timer import RequestTimer
from flinknet.net.task_clock import TaskClock, check_loop, until_available
from flinknet.net.tls import Tls
from flinknet.net.topic_writer import SlowReaders, TopicWriter
from flinknet.net.writer_rendezvous import WriterRendezvous
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.partition.registry import PartitionRegistry
from flinknet.partition.result_partition import ResultPartition, as_consumers_get_it
from flinknet.records.partitioner import Partitioner
from flinknet.records.reader import EventHandler, RecordReader
from flinknet.records.serialization.record_types import Registered
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.records.serialization.spanning_record import ReassemblyMemory
from flinknet.records.writer import RecordWriter
from flinknet.wire.handshake_messages import WorkerIdentity

__all__ = ["NetworkEnvironment"]

_LOOK_FOR_FAILURES_S = 0.25
"""Between two looks for the failure of a producer that cannot be reached."""


class NetworkEnvironment:
    """The exchange of this process; use it with ``async with``.

    Args: host: address to listen on; beyond loopback a secret or TLS must say who may connect.
        port: port to listen on, 0 for any free one. advertised: where others reach this
        environment, ``host:port`` or a host alone, if that is not where it listens: behind NAT, or
        with a host of ``0.0.0.0``, which is every address of this machine. tls: certificates, by
        which both sides of each connection prove who they are, and which encrypt what is
        exchanged; that of this worker has its id among its DNS names. worker_id: unique name of
        this worker; made up by default. job: only environments of the same job and attempt
        connect. attempt: number of the attempt; frames of another attempt are refused at the
        handshake. secret: what all environments of a job must know, text or bytes; both sides of a
        connection prove it before they say who they are. It never crosses the network and is in no
        message or repr, but whoever can connect may try guesses: take 16 random bytes or more
        (``secrets.token_bytes(16)``). By default there is none, and every program on this machine
        that knows the job's name may take part. directory: where writers say what they produce, so
        that readers of this machine find it by its name alone: a path, made if it is not there, or
        the address of a coordinator, ``http://127.0.0.1:8081``, whose token stands in
        ``FLINKNET_CLUSTER_TOKEN`` or behind it, ``/#token=...``. config: limits and defaults.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        worker_id: str | None = None,
        job: str = "embedded",
        attempt: int = 0,
        secret: bytes | str | None = None,
        tls: Tls | None = None,
        advertised: str | None = None,
        directory: str | os.PathLike[str] | None = None,
        config: NetworkConfig | None = None,
    ) -> None:
        if not (is_loopback(host) or secret or tls):
            raise ConfigurationError(
                f"cannot listen on {host}: all that reaches this address could connect; give "
                "a secret, which all environments of the job know, or TLS certificates (tls=), or "
                "listen on loopback (127.0.0.1, ::1, localhost)"
            )
        if advertised is None and is_any_address(host):
            raise ConfigurationError(
                f"{host} is every address of this machine: say under which one others reach it "
                "(advertised=)"
            )
        if not 0 <= port <= 65535:
            raise ConfigurationError(f"port is {port}: choose 0 (any free one) to 65535")
        if secret is not None and not secret:
            raise ConfigurationError(
                "the secret is empty: give one of 16 random bytes or more, or leave it out"
            )
        self.config = config if config is not None else NetworkConfig()
        self.worker_id = (
            worker_id if worker_id is not None else f"worker-{machine.random_bytes(6).hex()}"
        )
        self.network_pool: NetworkBufferPool
        self._host = host
        self._port = port
        self._job = job
        self._attempt = attempt
        self._names = None if directory is None else _names_in(directory, job, self.config, tls)
        self._tls = tls
        self._advertised = advertised
        self._secret = secret.encode() if isinstance(secret, str) else secret or b""
        self._address = ""
        self._topics: list[TopicWriter] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_disowned = False
        self._server: asyncio.Server | None = None
        self._registry = PartitionRegistry(
            self.config.rendezvous_timeout_ms / 1000,
            self.config.rendezvous_notice_ms / 1000,
            ended_max=self.config.ended_partitions_remembered_max,
            ended_s=self.config.ended_partitions_remembered_ms / 1000,
        )
        self._reassembly = ReassemblyMemory.of(self.config)
        self._peers: PeerDirectory
        self._request_timer: RequestTimer
        self._writer_rendezvous: WriterRendezvous
        self._requests: GateRequests
        self._flusher: EventLoopFlusher
        self._clock: TaskClock
        self._debloat_timer: DebloatTimer

    # -- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Allocate the network memory and listen.

        Raises ConfigurationError if the port is taken, a name is too long for a handshake, or this
        machine lacks what the configuration asks for: the file descriptors, too.
        """
        if self._loop is not None:
            raise LocalProtocolError("a network environment is entered once")
        check_machine(self.config)
        self._identity().encode()
        loop = asyncio.get_running_loop()
        self.network_pool = NetworkBufferPool(self.config.segments, self.config.segment_bytes)
        self._clock = TaskClock(loop)
        self._debloat_timer = DebloatTimer(loop, self.config.debloat)
        self._request_timer = RequestTimer(loop, self._registry)
        self._writer_rendezvous = WriterRendezvous(loop, self.config)
        try:
            server = await loop.create_server(
                self._accept,
                self._host,
                self._port,
                backlog=ACCEPTS_PER_TURN,
                start_serving=False,
            )
            port = server.sockets[0].getsockname()[1]
            self._address = reached_at(self._advertised or self._host, port)
            self._peers = PeerDirectory(
                self._identity(), self._registry, self.config, loop, self._secret, self._tls
            )
            self._flusher = EventLoopFlusher(loop, self.config, self._peers)
            self._requests = GateRequests(
                loop, self._registry, self._peers, self.config, self.worker_id
            )
            await server.start_serving()
            deepen_backlog(server.sockets)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {join_address(self._host, self._port)}: "
                f"{error.strerror or error}; choose another port, or 0 for any free one"
            ) from error
        self._loop, self._server = loop, server
        disown_after_fork(self)
        return self

    def _identity(self) -> WorkerIdentity:
        return WorkerIdentity(
            self.worker_id,
            self._address,
            self._job,
            self._attempt,
            self.config.segment_bytes,
            flow_control=self.config.flow_control,
        )

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release everything, let connections send what they have, close.

        Cancelled meanwhile, it cuts the connections off.
        """
        if self._loop is not None:
            check_loop(self._loop, "the network environment")
        server, self._server = self._server, None
        if server is not None:
            server.close()
        tasks = self._requests.release()
        self._registry.close()
        for partition in self._registry.partitions():
            if exc is not None:
                partition.fail(exc)
            else:
                partition.release()
        try:
            await self._peers.close()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._request_timer.cancel()
            self._reassembly.close()
            self.network_pool.destroy()
        if server is not None:
            await server.wait_closed()

    def _accept(self) -> asyncio.BufferedProtocol:
        return self._peers.accept()

    @property
    def address(self) -> str:
        """Where this environment listens, as ``host:port``. Raises LocalProtocolError before it
        does."""
        self._running()
        return self._address

    def disown(self) -> None:
        """Make everything that is open here raise ``left_behind``.

        Called in a process that was forked from the one that entered the environment.
        """
        self._is_disowned = True
        for partition in self._registry.partitions():
            partition.lost = left_behind(f"the writer of {partition.partition_id}")
            partition.writable = False
        for gate in self._requests.gates:
            gate.fail(left_behind(f"the reader {gate.name}"))

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._is_disowned:
            raise left_behind("the network environment")
        if self._loop is None or self._server is None:
            raise LocalProtocolError(
                "the network environment is not running: use it inside its `async with` block"
            )
        return self._loop

    def _check_usable(self) -> None:
        check_loop(self._running(), "the network environment")

    # -- producing --------------------------------------------------------------------------------

    def create_result_partition(
        self,
        partition_id: str,
        *,
        subpartitions: int,
        consumers: Sequence[str] | None = None,
        exchange_mode: ExchangeMode = ExchangeMode.PIPELINED_BOUNDED,
    ) -> ResultPartition:
        """Make a partition and register it under its name, where consumers may already wait for it.

        ``consumers`` are the ids of the workers that may consume it, one for each subpartition;
        whoever else asks hears what it would hear if there were none. By default any worker of the
        job may. ``exchange_mode`` says when they may read.

        Raises InsufficientNetworkBuffersError, LocalProtocolError if the name is in use,
        ConfigurationError for an exchange mode that cannot run.
        """
        self._check_usable()
        if consumers is not None and len(consumers) != subpartitions:
            raise ConfigurationError(
                f"partition {partition_id} has {subpartitions} subpartitions and {len(consumers)} "
                f"consumers: name the worker that consumes each subpartition"
            )
        partition = ResultPartition(
            partition_id,
            subpartitions,
            self.network_pool,
            self.config,
            exchange_mode.subpartition_factory(),
        )
        try:
            self._registry.register(partition, consumers)
        except LocalProtocolError:
            partition.release()
            raise
        return partition

    def create_record_writer(
        self,
        partition: ResultPartition,
        partitioner: Partitioner | None = None,
        *,
        buffer_timeout_ms: BufferTimeout | None = None,
        task_times: TaskTimes | None = None,
        types: Registered = None,
    ) -> RecordWriter:
        """Make the writer of a partition; the buffer timeout is the configured one by default.

        ``types`` are the classes whose objects may be in records, see ``RecordTypes``; the reader's
        must be the same.

        A task with several writers and readers gives them one ``task_times``.
        """
        timeout = self.config.buffer_timeout_ms if buffer_timeout_ms is None else buffer_timeout_ms
        check_buffer_timeout(timeout)
        wait = self._clock.measured_wait(partition, partition.partition_id, task_times)
        writer = RecordWriter(
            partition,
            partitioner,
            wait=self._writer_rendezvous.bounded(partition, wait),
            flusher=self._flusher,
            buffer_timeout_ms=timeout,
            record_bytes_max=self.config.record_bytes_max,
            record_elements_max=self.config.record_elements_max,
            record_keys_max=self.config.record_keys_max,
            remembered_keys_bytes=self.config.remembered_keys_bytes,
            types=types,
        )
        partition.when_released(lambda _: self._flusher.forget(writer))
        return writer

    @asynccontextmanager
    async def open_writer(
        self,
        name: str,
        *,
        subpartitions: int = 1,
        consumers: Sequence[str] | None = None,
        partitioner: Partitioner | None = None,
        buffer_timeout_ms: BufferTimeout | None = None,
        types: Registered = None,
    ) -> AsyncIterator[RecordWriter]:
        """Produce a partition called ``name``; ``consumers`` as for ``create_result_partition``,
        ``types`` as for ``create_record_writer``.

        A clean exit ends the partition and returns when every consumer has processed all of it; an
        exception inside the block is what the consumers get. Consumers may start later: what fits
        the partition's buffers is written meanwhile. A writer that has waited for one for
        ``rendezvous_timeout_ms`` raises ConsumerNotFoundError.
        """
        partition = self.create_result_partition(
            name, subpartitions=subpartitions, consumers=consumers
        )
        try:
            writer = self.create_record_writer(
                partition, partitioner, buffer_timeout_ms=buffer_timeout_ms, types=types
            )
        except FlinknetError as cause:
            partition.fail(cause)  # consumers may be attached already
            raise
        try:
            async with self._published(name, partial(_failure_of, partition)):
                with _failing(writer):
                    yield writer
                    await writer.finish()
        except BaseException as cause:
            writer.fail(cause)
            raise
        finally:
            writer.close()

    @asynccontextmanager
    async def open_topic(
        self,
        name: str,
        *,
        slow_readers: SlowReaders = "wait",
        queue_records_max: int = 1000,
        buffer_timeout_ms: BufferTimeout | None = None,
        types: Registered = None,
    ) -> AsyncIterator[TopicWriter]:
        """Write records for any number of readers, which join and leave meanwhile: who opens a
        reader of ``name`` gets what is emitted from then on.

        ``slow_readers`` says what a reader does to the others that does not keep up: with "wait"
        all wait for it; with "drop_oldest", "latest" and "disconnect" nobody does, once
        ``queue_records_max`` records wait for it (see ``topic_writer.py``). A clean exit ends the
        readers' partitions; an exception inside is what they get.
        """
        self._check_usable()

        def make_writer(number: int) -> tuple[ResultPartition, RecordWriter]:
            partition = self.create_result_partition(f"{name}#{number}", subpartitions=1)
            writer = self.create_record_writer(
                partition, buffer_timeout_ms=buffer_timeout_ms, types=types
            )
            return partition, writer

        topic = TopicWriter(
            name, make_writer, slow_readers=slow_readers, queue_records_max=queue_records_max
        )
        self._registry.register_topic(name, topic.join)
        self._topics.append(topic)
        failure: KeptError | None = None

        def failed() -> FailedProducer | None:
            return None if failure is None else FailedProducer(failure, None)

        try:
            async with self._published(name, failed):
                try:
                    yield topic
                    self._registry.forget_topic(name)
                    await topic.finish(self.config.close_timeout_ms / 1000)
                except BaseException as cause:
                    failure = KeptError.of(as_consumers_get_it(cause))
                    raise
        except BaseException as cause:
            topic.fail(cause)
            raise
        finally:
            self._registry.forget_topic(name, failure)
            self._topics.remove(topic)
            await topic.close()

    def _published(
        self, name: str, failure: Callable[[], FailedProducer | None]
    ) -> AbstractAsyncContextManager[None]:
        """Publish the address of a partition or a topic as long as the block takes.

        The error that ``failure`` returns at its end is left for readers that come later.
        """
        if self._names is None:
            return nullcontext()
        return self._names.published(name, self.worker_id, self._address, failure)

    # -- consuming --------------------------------------------------------------------------------

    def create_input_gate(
        self, locations: Sequence[PartitionLocation | UnknownLocation], *, name: str = "gate"
    ) -> InputGate:
        """Make a gate and request its partitions in the background; errors come out of its first
        poll, InsufficientNetworkBuffersError included if the gate's exclusive buffers are held by
        others for longer than ``buffers_request_timeout_ms``. What has an UnknownLocation waits for
        ``update_input_channel``.

        Raises InsufficientNetworkBuffersError, ConfigurationError for a bad address.
        """
        self._check_usable()
        for location in locations:
            if isinstance(location, PartitionLocation):
                split_address(location.address)
        gate = InputGate(name, locations, self._address, self.network_pool, self.config)
        self._debloat_timer.add(gate)
        self._requests.open(gate)
        return gate

    def update_input_channel(
        self, gate: InputGate, index: int, location: PartitionLocation
    ) -> None:
        """Say where the producer of a channel is that had an UnknownLocation, and request its
        partition, whose name need not be the one given before.

        Raises LocalProtocolError if the channel is known, ClosedResourceError after the gate's
        release, ConfigurationError for a bad address.
        """
        split_address(location.address)
        channel = gate.update_channel(index, location)
        if gate.is_set_up:
            self._requests.request(gate, [channel])

    def create_record_reader(
        self,
        gate: Gate,
        *,
        task_times: TaskTimes | None = None,
        types: Registered = None,
        interruptible: Callable[[Wait], Wait] | None = None,
        event_handler: EventHandler | None = None,
    ) -> RecordReader:
        """Make the reader of a gate, or of a UnionInputGate; ``task_times`` and ``types`` as for a
        writer, ``event_handler`` as for a RecordReader.

        ``interruptible`` makes a wait of the reader's, for a task that has something else to do
        while there is no data.
        """
        wait = self._clock.measured_wait(gate, gate.name, task_times)
        wait = self._debloat_timer.measured(gate, wait)
        if interruptible is not None:
            wait = interruptible(wait)
        unpacker = RecordUnpacker.of(self.config, types)
        return RecordReader(
            gate,
            wait=wait,
            unpacker=unpacker,
            memory=self._reassembly,
            event_handler=event_handler,
        )

    @asynccontextmanager
    async def open_reader(
        self,
        addresses: str | Sequence[str],
        name: str | None = None,
        *,
        subpartition: int = 0,
        producers: int = 1,
        types: Registered = None,
    ) -> AsyncIterator[RecordReader]:
        """Consume one subpartition of the partitions called ``name`` at one or several addresses,
        whose writers have the same ``types``. With one text only, ``open_reader("readings")``, it
        is the name, and the environment's directory knows where its ``producers`` are: so many
        workers are waited for.

        The producers may start later, within ``rendezvous_timeout_ms``.
        Leaving the block cancels what has not been read.
        """
        is_found = name is None
        if name is None:
            name, addresses = await self._find(addresses, producers, subpartition)
        listed = [addresses] if isinstance(addresses, str) else list(addresses)
        locations = [PartitionLocation(address, name, subpartition) for address in listed]
        gate = self.create_input_gate(locations, name=name)
        reader = self.create_record_reader(gate, types=types)
        connecting = (
            asyncio.create_task(self._hear_failures(gate, name, len(listed), subpartition))
            if is_found and gate.remote_channels
            else None
        )
        try:
            yield reader
        except RemoteTransportError as lost:
            if is_found:
                await self._raise_failure(name, len(listed), subpartition, lost)
            raise
        finally:
            reader.close()  # first, since this task may be cancelled while it waits
            if connecting is not None:
                connecting.cancel()
                await asyncio.wait([connecting])

    async def _hear_failures(
        self, gate: InputGate, name: str, producers: int, subpartition: int
    ) -> None:
        """Fail a gate while it connects, if a producer that was found by its name has failed.

        Otherwise the gate would try for ``rendezvous_timeout_ms`` to reach a socket that is closed.
        """
        assert self._names is not None
        while True:
            await asyncio.sleep(_LOOK_FOR_FAILURES_S)
            if not self._requests.is_connecting(gate):
                return
            try:
                await self._names.look(name, producers, 0.0, subpartition)
            except FlinknetError as error:
                gate.fail(error)
                return

    async def _raise_failure(
        self, name: str, producers: int, subpartition: int, lost: RemoteTransportError
    ) -> None:
        """Raise the error that a producer has left for this reader, if there is one.

        The connection to the producer was lost: it closed before the reader's request had come.
        """
        assert self._names is not None
        try:
            await self._names.look(name, producers, 0.0, subpartition)
        except RemoteTransportError:
            return  # the coordinator is gone as well
        except RemoteError as failure:
            raise failure from lost

    async def _find(
        self, name: str | Sequence[str], producers: int, subpartition: int
    ) -> tuple[str, Sequence[str]]:
        if not isinstance(name, str):
            raise ConfigurationError(
                f"a reader of {name} has no name: say which partition it reads"
            )
        if self._names is None:
            raise ConfigurationError(
                f'a reader of "{name}" needs the address of its writer, open_reader(address, '
                f'"{name}"), or both a directory: NetworkEnvironment(directory=...)'
            )
        if producers < 1:
            raise ConfigurationError(f"producers is {producers}: choose 1 or more")
        return name, await self._names.find(name, producers, self.config, subpartition)

    # -- the clock --------------------------------------------------------------------------------

    async def wait(self, availability: Availability) -> None:
        """Suspend until something is available; a cancelled waiter leaves nothing behind."""
        self._check_usable()
        await until_available(availability)

    # -- accounts ---------------------------------------------------------------------------------

    def memory_bound(self) -> MemoryBound:
        """Return the most that this exchange, as it is now, can hold beyond a fresh process."""
        connections = len(self._peers.links())
        shape = ExchangeShape.of(connections, self._registry.partitions(), self._requests.gates)
        return memory_bound(self.config, shape, tls=self._tls is not None)

    def network_statistics(self) -> NetworkStatistics:
        """Return the present counts of memory and peers; partitions and gates know their own."""
        self._running()
        return NetworkStatistics(
            network_pool=self.network_pool.statistics(),
            peers=self._peers.statistics(),
            connections=tuple(link.statistics() for link in self._peers.links()),
            reassembly=self._reassembly.statistics(),
        )

    def statistics(self) -> EnvironmentStatistics:
        """Say what memory, peers, partitions and gates hold, and where tasks spend their time."""
        return EnvironmentStatistics(
            *self.network_statistics(),
            partitions=tuple(partition.statistics() for partition in self._registry.partitions()),
            gates=tuple(gate.statistics() for gate in self._requests.gates),
            task_times=self._clock.statistics(),
            topics=tuple(topic.statistics() for topic in self._topics),
        )

    def network_totals(self, turns: Turns) -> Reading[NetworkTotals]:
        """Read memory and peers, over several turns of the event loop if there is much."""
        self._running()
        connections = yield from one_by_one(
            ConnectionTotals.reading(link, turns) for link in self._peers.links()
        )
        return NetworkTotals(
            network_pool=self.network_pool.statistics(),
            peers=self._peers.statistics(),
            connections=connections,
            reassembly=self._reassembly.statistics(),
        )

    def totals(self, turns: Turns) -> Reading[EnvironmentTotals]:
        """Read everything that is exported, in the same way: what ``statistics`` has, summed up."""
        network = yield from self.network_totals(turns)
        partitions = yield from one_by_one(
            PartitionTotals.reading(partition, turns) for partition in self._registry.partitions()
        )
        gates = yield from one_by_one(
            GateTotals.reading(gate, turns) for gate in tuple(self._requests.gates)
        )
        topics = tuple(topic.statistics() for topic in self._topics)
        return EnvironmentTotals(network, partitions, gates, topics)


def _names_in(
    directory: str | os.PathLike[str], job: str, config: NetworkConfig, tls: Tls | None
) -> PartitionNames:
    if is_coordinator(directory):
        # Now, because it needs aiohttp, which an exchange whose names are files never does.
        from flinknet.net.coordinator_names import CoordinatorNames

        return CoordinatorNames(os.fspath(directory), job, config, tls)
    return PartitionDirectory(directory, job, config)


@contextmanager
def _failing(writer: RecordWriter) -> Iterator[None]:
    """Fail the writer with what the block raises."""
    try:
        yield
    except BaseException as cause:
        writer.fail(cause)
        raise


def _failure_of(partition: ResultPartition) -> FailedProducer | None:
    """Return the error of a partition for the readers that have not come; None if there is none."""
    failure, unread = partition.kept_failure, partition.unread
    return None if failure is None or not unread else FailedProducer(failure, unread)

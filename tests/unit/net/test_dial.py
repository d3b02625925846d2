"""Dials of workers that are absent, late or too busy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from flinknet.config import NetworkConfig, WireLimits
from flinknet.connection.session import Session
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import ConfigurationError, HandshakeError, RemoteTransportError
from flinknet.net.dial import Dial
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.partition.registry import wire_partition_id
from flinknet.records.partitioner import RebalancePartitioner
from flinknet.wire.handshake_messages import Verdict
from flinknet.wire.messages import MessageType
from tests.free_port import free_port
from tests.sim.loop import SimLoop
from tests.unit.net.stranger import Host, Stranger, peers, quick, until
from tests.unit.wire.received import partition_request


class Tries:
    """A dial, with its tries and pauses recorded. Pauses take no time, except on virtual time."""

    def __init__(self, **options: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.pauses: list[float] = []
        self.failure: Exception = ConnectionRefusedError("refused")
        self.enough = asyncio.Event()
        self.arrives: Session | None = None
        self.over: list[Dial] = []
        self.goes_on = asyncio.Event()
        self.dial = Dial(
            "127.0.0.1:9",
            self._try_once,
            self._pause,
            self.over.append,
            self.loop,
            NetworkConfig(**options),  # type: ignore[arg-type]
        )

    async def _try_once(self) -> Session:
        await self.goes_on.wait()
        raise self.failure

    async def _pause(self, seconds: float) -> Session | None:
        self.pauses.append(seconds)
        if len(self.pauses) == 20:
            self.enough.set()
        await asyncio.sleep(seconds if isinstance(self.loop, SimLoop) else 0)
        return self.arrives

    async def until_enough(self) -> None:
        waiting = await self.begin_to_wait()
        self.goes_on.set()
        await self.enough.wait()
        await self.give_up(waiting)
        await until(lambda: self.over == [self.dial])

    async def begin_to_wait(self) -> asyncio.Task[Session]:
        waiting = asyncio.create_task(self.dial.wait("a gate"))
        await asyncio.sleep(0)
        return waiting

    async def give_up(self, waiting: asyncio.Task[Session]) -> None:
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_pauses_double_up_to_a_limit_and_are_cut_at_random() -> None:
    tries = Tries(connect_backoff_ms=100.0, connect_backoff_max_ms=1_000.0)
    await tries.until_enough()
    longest = [0.1, 0.2, 0.4, 0.8, *[1.0] * 16]
    assert all(
        most / 2 <= pause <= most for pause, most in zip(tries.pauses, longest, strict=False)
    )
    assert len(set(tries.pauses[4:])) > 1


async def test_a_permanent_refusal_is_not_retried() -> None:
    tries = Tries()
    tries.failure = HandshakeError("another job")
    tries.goes_on.set()
    with pytest.raises(HandshakeError, match="another job"):
        await tries.dial.wait("a gate")
    assert tries.pauses == []


@pytest.mark.parametrize("heartbeat_timeout_ms", [0.0, 60_000.0])
def test_a_worker_that_is_held_up_is_waited_for_where_no_peer_is_given_up(
    heartbeat_timeout_ms: float,
) -> None:
    """It is waited for beyond the deadline, on virtual time.

    The deadline counts again once the address refuses connections.
    """
    loop = SimLoop()

    async def dial() -> None:
        tries = Tries(rendezvous_timeout_ms=1_000.0, heartbeat_timeout_ms=heartbeat_timeout_ms)
        silent = HandshakeError("it has not answered")
        silent.may_pass = silent.unanswered = True
        tries.failure = silent
        waiting = await tries.begin_to_wait()
        tries.goes_on.set()
        await asyncio.sleep(60.0)
        assert waiting.done() == (heartbeat_timeout_ms > 0)
        tries.failure = ConnectionRefusedError("refused")
        with pytest.raises(RemoteTransportError, match="rendezvous_timeout_ms"):
            await waiting
        await asyncio.wait([tries.dial.cancel()])

    try:
        loop.run_until_complete(dial())
    finally:
        loop.close()


async def test_a_longest_pause_below_the_first_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="connect_backoff_max_ms is 1"):
        NetworkConfig(connect_backoff_ms=2.0, connect_backoff_max_ms=1.0)


# -- consumers that start before their producers ---------------------------------------------------


async def consume(environment: NetworkEnvironment, address: str, index: int = 0) -> list[int]:
    async with environment.open_reader(address, "p", subpartition=index) as reader:
        return [record async for record in reader]


async def produce(environment: NetworkEnvironment, records: int, subpartitions: int = 1) -> None:
    async with environment.open_writer(
        "p", subpartitions=subpartitions, partitioner=RebalancePartitioner()
    ) as writer:
        await writer.emit_many(list(range(records)))


async def test_a_consumer_may_start_long_before_its_producers_process_and_partition() -> None:
    """First nothing listens at the address, then a worker without the partition, and then the
    partition comes."""
    port = free_port()
    config = quick(connect_backoff_max_ms=1.0)
    async with NetworkEnvironment(config=config) as consumer:
        reading = asyncio.create_task(consume(consumer, f"127.0.0.1:{port}"))
        await until(lambda: peers(consumer).dialled_total > 10)
        async with NetworkEnvironment(port=port, config=config) as producer:
            await until(lambda: bool(producer.statistics().connections))
            await until(lambda: bool(producer.statistics().connections[0].readers))
            await produce(producer, 3)
            assert await reading == [0, 1, 2]


async def test_waiting_is_logged_once_with_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    address = f"127.0.0.1:{free_port()}"
    config = quick(
        rendezvous_notice_ms=200.0, rendezvous_timeout_ms=600.0, connect_backoff_max_ms=1.0
    )
    async with NetworkEnvironment(config=config) as environment:
        with pytest.raises(RemoteTransportError, match=r"within 0\.6 s \(rendezvous_timeout_ms\)"):
            await consume(environment, address)
    (line,) = caplog.messages
    assert f"(p[0] at {address}) of gate p: still waiting for a worker at {address}" in line
    assert "is a worker listening there?" in line


async def test_both_sides_say_that_a_partition_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The producer's worker knows the reason and warns.

    The consumer knows only that no data has come.
    """
    caplog.set_level(logging.INFO)
    config = quick(rendezvous_notice_ms=300.0)
    async with (
        NetworkEnvironment(config=config) as there,
        NetworkEnvironment(worker_id="consumer", config=config) as here,
    ):
        reading = asyncio.create_task(consume(here, there.address))
        await until(lambda: len(caplog.messages) == 2)
        levels = {record.levelname: record.getMessage() for record in caplog.records}
        assert "not registered in this worker: channel 0 of consumer" in levels["WARNING"]
        assert f"gate p: requested from {there.address}, but nothing has arrived" in levels["INFO"]
        await produce(there, 1)
        assert await reading == [0]


async def test_without_a_deadline_a_dial_goes_on() -> None:
    config = quick(rendezvous_timeout_ms=0.0, connect_backoff_max_ms=1.0)
    async with NetworkEnvironment(config=config) as environment:
        reading = asyncio.create_task(consume(environment, f"127.0.0.1:{free_port()}"))
        await until(lambda: peers(environment).dialled_total > 50)
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])


async def test_an_attempt_without_waiters_completes_and_its_connection_is_kept() -> None:
    """The peer counts on the connection from its answer on, before this side has read it."""
    config = quick(close_timeout_ms=20.0)
    async with Host() as host, NetworkEnvironment(config=config) as environment:
        location = PartitionLocation(host.address, "p", 0)
        gates = [environment.create_input_gate([location]) for _ in range(2)]
        dialled = await host.accept()
        for gate in gates:
            gate.release()
        await asyncio.sleep(0)
        environment.create_result_partition("q", subpartitions=1)
        host.answer(dialled)
        dialled.send(partition_request(0, wire_partition_id("q")))
        await until(lambda: bool(environment.statistics().connections))
        await until(lambda: bool(environment.statistics().connections[0].readers))
        gate = environment.create_input_gate([location])
        [request] = await dialled.read_messages(1)
        assert request[:2] == (MessageType.PARTITION_REQUEST, 0)
        assert peers(environment).dialled_total == 1
        gate.release()


async def test_a_new_waiter_makes_an_abandoned_dial_retry() -> None:
    tries = Tries()
    await tries.give_up(await tries.begin_to_wait())
    await tries.until_enough()


async def test_a_failed_attempt_without_waiters_is_the_last() -> None:
    """A producer that comes later must not be dialled without need."""
    tries = Tries()
    await tries.give_up(await tries.begin_to_wait())
    assert not tries.dial.ends
    tries.goes_on.set()
    await until(lambda: tries.over == [tries.dial])
    assert tries.pauses == []


async def test_a_dialler_refused_as_duplicate_retries_until_connected() -> None:
    config = quick(connect_backoff_max_ms=1.0, close_timeout_ms=1.0)
    async with (
        Host() as host,
        NetworkEnvironment(worker_id="x", config=config) as environment,
    ):
        reading = asyncio.create_task(consume(environment, host.address))
        for _ in range(5):
            dialled = await host.accept()
            host.answer(dialled, Verdict.DUPLICATE)
            await dialled.read_to_end()
        dialled = await host.accept()
        host.answer(dialled)
        await dialled.read_messages(1)
        reading.cancel()
        await asyncio.wait([reading])


# -- many dials at once ----------------------------------------------------------------------------

WORKERS = 90


@asynccontextmanager
async def silent_strangers(address: str, number: int) -> AsyncIterator[list[Stranger]]:
    strangers = [await Stranger.dial(address) for _ in range(number)]
    try:
        yield strangers
    finally:
        for stranger in strangers:
            await stranger.close()


@pytest.mark.parametrize("strangers", [0, 300])
async def test_many_workers_that_dial_one_at_once_all_get_through(strangers: int) -> None:
    """This holds with fewer handshakes at a time than workers, and with strangers that occupy all
    of them."""
    wire = WireLimits(pending_handshakes_max=40, handshake_timeout_ms=60_000.0)
    config = quick(wire=wire, connect_backoff_max_ms=100.0)
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(NetworkEnvironment(config=config))
        await stack.enter_async_context(silent_strangers(producer.address, strangers))
        await until(lambda: peers(producer).pending == min(strangers, 40))
        workers = [
            await stack.enter_async_context(NetworkEnvironment(config=config))
            for _ in range(WORKERS)
        ]
        async with asyncio.TaskGroup() as group:
            reading = [
                group.create_task(consume(worker, producer.address, index))
                for index, worker in enumerate(workers)
            ]
            group.create_task(produce(producer, 10 * WORKERS, WORKERS))
        assert sorted(record for task in reading for record in task.result()) == list(
            range(10 * WORKERS)
        )

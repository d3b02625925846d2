"""The network environment, between the core and the event loop."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.buffer.builder import BufferBuilder
from flinknet.config import NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import InsufficientNetworkBuffersError, LocalProtocolError, RemoteError
from flinknet.net.memory_bound import ExchangeShape, memory_bound
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.partitioner import HashPartitioner, RebalancePartitioner
from tests.unit.net.stranger import Host, assert_nothing_is_held, quick, until

# -- exclusive buffers that others hold ------------------------------------------------------------


def fill(partition: ResultPartition) -> list[BufferBuilder]:
    """Take every buffer that the partition gets, as a producer without a reader does."""
    builders = []
    while (builder := partition.request_builder(0)) is not None:
        builder.append(memoryview(b"x" * 1024))
        builders.append(builder)
    return builders


def make_gate(environment: NetworkEnvironment, address: str) -> InputGate:
    locations = [PartitionLocation(address, f"p{number}", 0) for number in range(4)]
    return environment.create_input_gate(locations, name="join")


async def test_a_gate_without_buffers_fails_and_names_their_holders() -> None:
    """B10, FLINK-12852: producers without readers have filled their pools."""
    config = quick(network_memory_bytes=16 * 1024, buffers_request_timeout_ms=1.0)
    async with Host() as peer, NetworkEnvironment(config=config) as environment:
        for name in ("one", "other"):
            assert fill(environment.create_result_partition(name, subpartitions=1))
        assert environment.network_pool.statistics().free == 0
        gate = make_gate(environment, peer.address)
        reader = environment.create_record_reader(gate)

        with pytest.raises(
            InsufficientNetworkBuffersError,
            match=r"gate join got 0 of its 8 exclusive buffers within 1 ms; .*"
            r"partition (one|other) \(\d+\), partition (one|other) \(\d+\): .*"
            r"network_memory_bytes.*buffers_request_timeout_ms",
        ):
            await reader.next_batch()

        assert environment.network_pool.statistics().exclusive == 0
        assert not peer.strangers, "its partitions are not requested"
        reader.close()


async def test_a_gate_goes_on_when_its_buffers_come_in_time() -> None:
    config = quick(network_memory_bytes=16 * 1024, close_timeout_ms=1.0)
    async with Host() as peer, NetworkEnvironment(config=config) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        fill(partition)
        gate = make_gate(environment, peer.address)
        assert not gate.is_set_up

        partition.release()

        assert gate.is_set_up
        peer.answer(await peer.accept())
        gate.time_out_setup(1.0)
        assert gate.poll() is None, "too late to time out"
        gate.release()
        await assert_nothing_is_held(environment)


async def test_a_gate_that_is_released_while_it_waits_gives_everything_back() -> None:
    config = quick(network_memory_bytes=16 * 1024)
    async with Host() as peer, NetworkEnvironment(config=config) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        fill(partition)
        gate = make_gate(environment, peer.address)
        gate.release()
        partition.release()
        gate.time_out_setup(1.0)
        await assert_nothing_is_held(environment)


async def test_a_gate_that_gets_buffers_during_close_requests_nothing() -> None:
    """The second gate waits for the buffers of the first one."""
    config = quick(network_memory_bytes=16 * 1024)
    async with Host() as peer:
        locations = [PartitionLocation(peer.address, f"p{number}", 0) for number in range(2)]
        async with NetworkEnvironment(config=config) as environment:
            first = environment.create_input_gate(locations)
            fill(environment.create_result_partition("p", subpartitions=1))
            second = environment.create_input_gate(locations)
            assert (first.is_set_up, second.is_set_up) == (True, False)
        assert first.released
        assert second.released
        assert second.is_set_up
        assert not peer.strangers
        counts = environment.network_pool.statistics()
        assert (counts.required, counts.exclusive, counts.local_pools) == (0, 0, 0)


# -- the memory bound ------------------------------------------------------------------------------


async def test_the_bound_is_that_of_what_is_exchanged_now() -> None:
    config = quick(close_timeout_ms=1.0)
    async with Host() as peer, NetworkEnvironment(config=config) as environment:

        def bound_is(*shape: int) -> bool:
            _, partitions, _, gates, _, _ = shape
            expected = ExchangeShape._make((*shape, gates, partitions))
            return environment.memory_bound() == memory_bound(environment.config, expected)

        assert bound_is(0, 0, 0, 0, 0, 0)
        environment.create_result_partition("p", subpartitions=3)
        gate = environment.create_input_gate(
            [
                PartitionLocation(environment.address, "p", 0),
                PartitionLocation(peer.address, "q", 0),
                PartitionLocation(peer.address, "q", 1),
            ]
        )
        assert bound_is(0, 1, 3, 1, 1, 2)
        peer.answer(await peer.accept())
        await until(lambda: bound_is(1, 1, 3, 1, 1, 2))
        gate.release()
        assert bound_is(1, 1, 3, 0, 0, 0)


# -- statistics ------------------------------------------------------------------------------------


async def test_each_gate_is_reported_once_and_not_after_its_end() -> None:
    """I15: two gates of the same partitions are reported separately, and a released gate is not."""
    async with Host() as peer, NetworkEnvironment(config=quick()) as environment:
        locations = [PartitionLocation(peer.address, "p", index) for index in range(2)]
        gates = [environment.create_input_gate(locations[:1], name="one")]
        gates.append(environment.create_input_gate(locations, name="other"))
        reported = environment.statistics().gates
        assert [(gate.name, len(gate.channels)) for gate in reported] == [("one", 1), ("other", 2)]
        gates[0].release()
        assert [gate.name for gate in environment.statistics().gates] == ["other"]
        gates[1].release()
        assert environment.statistics().gates == ()


async def test_a_writer_that_cannot_be_made_does_not_leave_its_consumer_waiting() -> None:
    """H3: a waiting consumer of the partition is told that it will not come."""
    async with NetworkEnvironment(config=quick()) as environment:
        gate_reader = environment.open_reader(environment.address, "p")
        async with gate_reader as reader:
            reading = asyncio.ensure_future(reader.next_batch())
            partitioner = RebalancePartitioner()
            partitioner.setup(3)
            with pytest.raises(LocalProtocolError, match="set up for 3"):
                async with environment.open_writer("p", partitioner=partitioner):
                    pass
            for _ in range(50):
                await asyncio.sleep(0)
            assert reading.done()
            with pytest.raises(RemoteError):
                await reading


async def test_a_keyed_exchange_remembers_as_much_as_is_configured() -> None:
    config = NetworkConfig(network_memory_bytes=2 << 20, remembered_keys_bytes=1_000)
    async with NetworkEnvironment(config=config) as environment:
        hashing = HashPartitioner(lambda record: record)
        partition = environment.create_result_partition("p", subpartitions=2)
        writer = environment.create_record_writer(partition, hashing)
        for number in range(100):
            hashing.select(number)
        assert len(hashing._remembered.keys()) < 10
        writer.close()

"""Gates with producers that are located late, and gates that are read as one."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.config import BufferDebloatConfig
from flinknet.consumer.input_channel import PartitionLocation, UnknownLocation
from flinknet.consumer.union_input_gate import UnionInputGate
from flinknet.errors import (
    ClosedResourceError,
    ConfigurationError,
    LocalProtocolError,
    PartitionNotFoundError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
    RemoteError,
    RemoteTransportError,
)
from flinknet.net.network_environment import NetworkEnvironment
from tests.free_port import free_port
from tests.unit.net.stranger import Host, assert_nothing_is_held, quick, until
from tests.unit.wire.received import buffer_response


async def produce(environment: NetworkEnvironment, name: str, records: list[int]) -> None:
    async with environment.open_writer(name) as writer:
        await writer.emit_many(records)


# -- unknown channels ------------------------------------------------------------------------------


async def test_channels_that_become_local_and_remote_deliver() -> None:
    """I3, I11, I13: reading begins with the known channels, and an update may change the name."""
    async with (
        NetworkEnvironment(config=quick()) as here,
        NetworkEnvironment(config=quick()) as there,
    ):
        gate = here.create_input_gate(
            [
                UnknownLocation("a", 0),
                PartitionLocation(there.address, "b", 0),
                UnknownLocation("c", 0),
            ]
        )
        reader = here.create_record_reader(gate)
        producing = [
            asyncio.create_task(produce(environment, name, [number]))
            for number, (environment, name) in enumerate(
                [(there, "a, again"), (there, "b"), (here, "c")]
            )
        ]
        first = await anext(aiter(reader))
        assert first == 1
        here.update_input_channel(gate, 0, PartitionLocation(there.address, "a, again", 0))
        here.update_input_channel(gate, 2, PartitionLocation(here.address, "c", 0))
        assert sorted([record async for record in reader]) == [0, 2]
        await asyncio.gather(*producing)
        reader.close()
        assert len(here.statistics().connections) == 1
        await assert_nothing_is_held(here)
        await assert_nothing_is_held(there)


async def test_an_update_that_cannot_be_is_refused_and_changes_nothing() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        unknown = UnknownLocation("p", 0)
        gate = environment.create_input_gate([unknown])
        location = PartitionLocation(environment.address, "p", 0)
        with pytest.raises(ConfigurationError):
            environment.update_input_channel(gate, 0, location._replace(address="nowhere"))
        assert gate.statistics().channels[0].location == unknown
        environment.update_input_channel(gate, 0, location)
        with pytest.raises(LocalProtocolError, match="known already"):
            environment.update_input_channel(gate, 0, location)
        gate.release()
        with pytest.raises(ClosedResourceError):
            environment.update_input_channel(gate, 0, location)
        await assert_nothing_is_held(environment)


async def test_a_placed_producer_that_is_not_there_fails_the_gate() -> None:
    """I5."""
    config = quick(rendezvous_timeout_ms=1.0)
    async with NetworkEnvironment(config=config) as environment:
        gate = environment.create_input_gate([UnknownLocation("p", 0)])
        reader = environment.create_record_reader(gate)
        environment.update_input_channel(gate, 0, PartitionLocation(environment.address, "p", 0))
        with pytest.raises(PartitionRequestTimeoutError):
            await reader.next_batch()
        reader.close()


async def test_a_gate_that_still_waits_for_places_is_closed_with_the_environment() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        gate = environment.create_input_gate([UnknownLocation("p", 0)])
    assert gate.released


# -- the union of gates ----------------------------------------------------------------------------


async def test_gates_can_be_read_as_one() -> None:
    """I13: local and remote gates; a batch gives its channel's number, counted over all gates."""
    async with (
        NetworkEnvironment(config=quick()) as here,
        NetworkEnvironment(config=quick()) as there,
    ):
        sources = [(there, "a"), (here, "b"), (there, "c")]
        locations = [PartitionLocation(side.address, name, 0) for side, name in sources]
        gates = [here.create_input_gate(locations[:2]), here.create_input_gate(locations[2:])]
        reader = here.create_record_reader(UnionInputGate(gates))
        producing = [
            asyncio.create_task(produce(side, name, [10 * number, 10 * number + 1]))
            for number, (side, name) in enumerate(sources)
        ]
        seen: dict[int, list[int]] = {}
        async for batch in reader.batches():
            seen.setdefault(batch.channel, []).extend(batch)
        assert seen == {0: [0, 1], 1: [10, 11], 2: [20, 21]}
        await asyncio.gather(*producing)
        reader.close()
        await assert_nothing_is_held(here)


async def test_a_failed_producer_of_one_gate_fails_the_union() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        gates = [
            environment.create_input_gate([PartitionLocation(environment.address, name, 0)])
            for name in ("a", "b")
        ]
        reader = environment.create_record_reader(UnionInputGate(gates))
        environment.create_result_partition("b", subpartitions=1).fail(ValueError("first cause"))
        with pytest.raises(ProducerFailedError, match="first cause"):
            await reader.next_batch()
        reader.close()
        await assert_nothing_is_held(environment)


# -- errors and their channels
# ----------------------------------------------------------------------


async def failure_of(environment: NetworkEnvironment, *locations: PartitionLocation) -> RemoteError:
    """Read a gate called "merge" until it fails; check that everything is returned."""
    gate = environment.create_input_gate(locations, name="merge")
    reader = environment.create_record_reader(gate)
    with pytest.raises(RemoteError) as raised:
        while True:
            await reader.next_batch()
    reader.close()
    await assert_nothing_is_held(environment)
    return raised.value


async def test_a_failed_connect_names_channel_and_gate() -> None:
    config = quick(rendezvous_timeout_ms=500.0)
    async with NetworkEnvironment(config=config) as environment:
        address = f"127.0.0.1:{free_port()}"
        error = await failure_of(environment, PartitionLocation(address, "p", 4))
    assert type(error) is RemoteTransportError
    assert str(error).startswith(f"channel 0 (p[4] at {address}) of gate merge: cannot connect")
    assert "is a worker listening there?" in str(error)
    assert isinstance(error.__cause__, OSError)


@pytest.mark.parametrize("remote", [False, True])
async def test_a_request_that_times_out_names_channel_and_gate(remote: bool) -> None:
    async with (
        NetworkEnvironment(config=quick(rendezvous_timeout_ms=1.0)) as there,
        NetworkEnvironment(config=quick()) as here,
    ):
        location = PartitionLocation(there.address, "p", 0)
        error = await failure_of(here if remote else there, location)
    assert type(error) is PartitionRequestTimeoutError
    assert str(error).startswith(f"channel 0 ({location}) of gate merge: the partition was not")
    assert "rendezvous_timeout_ms" in str(error)


@pytest.mark.parametrize("when", ["before it is asked for", "while it is read"])
@pytest.mark.parametrize("remote", [False, True])
async def test_a_released_partition_names_channel_and_gate(remote: bool, when: str) -> None:
    """D2, H3: local and remote readers get the same error and do not wait forever."""
    async with (
        NetworkEnvironment(config=quick()) as there,
        NetworkEnvironment(config=quick()) as here,
    ):
        partition = there.create_result_partition("p", subpartitions=1)
        location = PartitionLocation(there.address, "p", 0)
        if when == "before it is asked for":
            partition.release()
        failing = asyncio.create_task(failure_of(here if remote else there, location))
        if when == "while it is read":
            await there.create_record_writer(partition, buffer_timeout_ms=0).emit(1)
            await until(lambda: partition.statistics().buffers_out == 1)
            partition.release()
        error = await failing
    assert type(error) is PartitionNotFoundError
    start = f"channel 0 ({location}) of gate merge: partition p has been released by its producer"
    assert str(error).startswith(start)


async def test_one_loss_names_each_channel_to_its_own_gate() -> None:
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        gates = [
            environment.create_input_gate([PartitionLocation(host.address, name, 0)], name=name)
            for name in ("p", "q")
        ]
        stranger = await host.accept()
        host.answer(stranger)
        await stranger.read_messages(2)
        await stranger.close()
        for gate in gates:
            with pytest.raises(RemoteTransportError, match="was lost") as raised:
                await environment.create_record_reader(gate).next_batch()
            start = f"channel 0 ({gate.name}[0] at {host.address}) of gate {gate.name}: "
            assert str(raised.value).startswith(start)
            assert str(raised.value).count("channel 0") == 1
            gate.release()
        await assert_nothing_is_held(environment)


async def test_a_violation_names_its_channel_once() -> None:
    """G11."""
    async with Host() as host, NetworkEnvironment(config=quick()) as environment:
        location = PartitionLocation(host.address, "p", 0)
        reading = asyncio.create_task(failure_of(environment, location))
        stranger = await host.accept()
        host.answer(stranger)
        await stranger.read_messages(1)
        stranger.send(buffer_response(0, sequence=5))
        error = await reading
        await stranger.close()
    assert str(error) == f"channel 0 ({location}) of gate merge received buffer 5, expected 0"


# -- debloating ------------------------------------------------------------------------------------


async def test_the_environment_debloats_its_gates() -> None:
    """Census 1.8: with its own timer and its own clock; other tests cover the sizes."""
    debloat = BufferDebloatConfig(
        enabled=True, period_ms=0.1, samples=1, segment_bytes_min=16, target_ms=1e-6
    )
    async with NetworkEnvironment(config=quick(debloat=debloat)) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        writer = environment.create_record_writer(partition)
        gate = environment.create_input_gate([PartitionLocation(environment.address, "p", 0)])
        reader = environment.create_record_reader(gate)
        await writer.emit(1)
        assert await reader.next_batch() is not None
        await until(lambda: partition.subpartitions[0].buffer_bytes == 16)
        reader.close()
        writer.close()
